//! Collects the data files of a snapshot from its manifests, with the deletes that apply to each file.

use std::collections::HashMap;

use forebay_arrow::array::ArrayRef;
use forebay_base::{Error, ErrorKind, Place, Result};

use crate::avro::AvroValue;
use crate::deletes::DeletionVector;
use crate::manifest::{self, Content, Entry, Manifest};
use crate::metadata::{Metadata, PartitionField};
use crate::schema::TableColumn;
use crate::statistics::Collected;
use crate::table::{Equality, Positions, Table, TableFile};
use crate::value;

/// The data files and deletes of the manifests that were added so far.
pub struct Scan<'a> {
    metadata: &'a Metadata,
    columns: Vec<TableColumn>,
    /// The index of each partition in `constants`, by the id of the partition spec and the partition's
    /// values.
    partitions: HashMap<(i64, AvroValue), u32>,
    constants: Vec<Vec<(usize, ArrayRef)>>,
    files: Vec<TableFile>,
    statistics: Collected,
    positions: Vec<Positions>,
    equalities: Vec<Equality>,
    /// The deletion vector of each data file, by the file's location, with the sequence number of the
    /// vector's commit.
    vectors: HashMap<Box<str>, (DeletionVector, i64)>,
}

impl<'a> Scan<'a> {
    /// Starts a scan that reads with the schema with the id `schema`.
    ///
    /// # Errors
    /// The errors of [`Metadata::columns`].
    pub fn new(metadata: &'a Metadata, schema: i64) -> Result<Self> {
        Ok(Scan {
            metadata,
            columns: metadata.columns(schema)?,
            partitions: HashMap::new(),
            constants: Vec::new(),
            files: Vec::new(),
            statistics: Collected::default(),
            positions: Vec::new(),
            equalities: Vec::new(),
            vectors: HashMap::new(),
        })
    }

    /// Adds a manifest; manifests may come in any order.
    ///
    /// # Errors
    /// `Corrupt` if the manifest cannot be read; `Unsupported` for files that are not Parquet or are
    /// encrypted.
    pub fn manifest(&mut self, manifest: &Manifest, bytes: &[u8]) -> Result<()> {
        let spec = self.metadata.spec(manifest.spec)?;
        manifest::each(manifest, bytes, |entry| {
            let location = entry.location.clone();
            self.take(entry, manifest.spec, &spec).map_err(|error| error.at(Place::file(&*location)))
        })
    }

    fn take(&mut self, entry: Entry, spec: i64, fields: &[(i32, PartitionField)]) -> Result<()> {
        let is = |format: &str| entry.format.eq_ignore_ascii_case(format);
        if entry.content == Content::Positions && is("puffin") {
            return self.vector(entry);
        }
        if !is("parquet") {
            let what = if entry.content == Content::Rows { "rows" } else { "deleted rows" };
            let cause = format!(
                "the table has {what} in a file of format {}, and only Parquet is supported",
                entry.format
            );
            return Err(Error::new(ErrorKind::Unsupported, cause)
                .hint("rewrite the files of the table with `write.format.default` set to parquet"));
        }
        let Entry { location, size, rows, sequence, .. } = entry;
        match entry.content {
            Content::Rows => {
                let partition = self.partition(spec, fields, entry.partition)?;
                let Entry { row_groups, first_row_id, .. } = entry;
                let listed = self.statistics.add(&self.columns, rows, entry.statistics);
                self.files.push(TableFile {
                    location,
                    size,
                    rows,
                    row_groups,
                    first_row_id,
                    listed,
                    partition,
                    sequence,
                    deletion: None,
                });
            }
            Content::Positions => self.positions.push(Positions { location, size, sequence }),
            Content::Equality => {
                let is_whole = fields.iter().all(|(_, field)| field.is_void());
                let partition = match is_whole {
                    true => None,
                    false => Some(self.partition(spec, fields, entry.partition)?),
                };
                let columns = entry.equality.iter().map(|id| {
                    let column = self.metadata.column(*id)?;
                    column.ok_or_else(|| {
                        let cause = format!("rows are deleted by the values of column number {id}, which cannot be read");
                        Error::new(ErrorKind::Unsupported, cause)
                            .hint("the column may be inside another one: compact the table, which applies its deletes")
                    })
                });
                let columns: Vec<TableColumn> = columns.collect::<Result<_>>()?;
                if columns.is_empty() {
                    return Err(Error::new(
                        ErrorKind::Corrupt,
                        "a delete file names no column whose values delete rows",
                    ));
                }
                self.equalities.push(Equality { location, size, sequence, partition, columns });
            }
        }
        Ok(())
    }

    fn vector(&mut self, entry: Entry) -> Result<()> {
        let Entry { location, size, rows: count, sequence, deletes_of, blob, .. } = entry;
        let Some((of, (offset, length))) = deletes_of.zip(blob) else {
            return Err(Error::new(
                ErrorKind::Corrupt,
                "the manifest has a deletion vector without its file or position",
            ));
        };
        let vector = DeletionVector { location, size, offset, length, count };
        match self.vectors.insert(of, (vector, sequence)) {
            Some(_) => {
                Err(Error::new(ErrorKind::Corrupt, "the manifests have two deletion vectors for one file"))
            }
            None => Ok(()),
        }
    }

    /// Returns the index of a partition in `constants`, and adds the partition if it is new.
    fn partition(
        &mut self,
        spec: i64,
        fields: &[(i32, PartitionField)],
        mut values: AvroValue,
    ) -> Result<u32> {
        let key = (spec, values.clone());
        if let Some(known) = self.partitions.get(&key) {
            return Ok(*known);
        }
        let mut constants = Vec::new();
        // Only the transform `identity` stores the column's own value in the partition; others, such as
        // `year`, do not.
        for (id, field) in fields.iter().filter(|(_, field)| field.transform == "identity") {
            let is_source = |column: &TableColumn| Some(column.name.id) == field.source_id;
            let Some(at) = self.columns.iter().position(is_source) else { continue };
            let column = &self.columns[at];
            // If the field is missing from the partition, the column's values are those in the file, and not
            // null.
            let Some(value) = values.replaced(*id) else { continue };
            let array = value::array(column.field.data_type(), &value).ok_or_else(|| {
                let cause = "a partition has a value of another type than its column";
                Error::new(ErrorKind::Corrupt, cause)
                    .at(Place::default().column(column.field.name().as_str()))
            })?;
            constants.push((at, array));
        }
        let next = self.constants.len() as u32;
        self.partitions.insert(key, next);
        self.constants.push(constants);
        Ok(next)
    }

    /// Makes the table once all of its manifests were added.
    pub fn finish(mut self) -> Table {
        for file in &mut self.files {
            let vector = self.vectors.remove(&file.location);
            let vector = vector.filter(|(_, sequence)| file.sequence <= *sequence);
            file.deletion = vector.map(|(vector, _)| Box::new(vector));
        }
        self.files.sort_unstable_by(|one, other| one.location.cmp(&other.location));
        let first = self.files.iter().map(|file| file.sequence).min().unwrap_or(i64::MAX);
        self.positions.retain(|positions| first <= positions.sequence);
        self.equalities.retain(|equality| first < equality.sequence);
        Table {
            statistics: self.statistics.finish(&self.columns),
            columns: self.columns,
            partitions: self.constants,
            files: self.files,
            positions: self.positions,
            equalities: self.equalities,
        }
    }
}
