//! Reads MosaicML's shards (MDS), as its `streaming` library writes them.
//!
//! ```text
//! shard   count u32 │ offsets u32 × (count + 1) │ the shard's form as JSON │ sample │ sample │ …
//! sample  sizes u32 × columns without a fixed size │ values of all columns
//! ```
//!
//! All numbers are little-endian. The format is described at
//! <https://docs.mosaicml.com/projects/streaming/en/stable/preparing_datasets/dataset_format.html>.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use forebay_arrow::array::{ArrayRef, RecordBatch};
use forebay_arrow::datatypes::{Field, Schema, SchemaRef};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Place, Result};
use serde::Deserialize;

use super::folder::{DiskFile, FoundKind};
use super::mds_values::{MdsEncoding, cut, number};
use super::read::{beside, place, read_file};
use super::sizes::BATCH_ROWS;
use super::source::TableSource;

/// The shards in a folder and in the folders below it.
pub(super) struct MdsShards {
    /// The file of each shard, in the order of `shards`.
    files: Vec<DiskFile>,
    shards: Vec<Shard>,
    columns: Vec<MdsColumn>,
    schema: SchemaRef,
}

/// A shard as the index describes it.
#[derive(Clone, Deserialize, PartialEq)]
struct Shard {
    column_names: Vec<String>,
    column_encodings: Vec<String>,
    column_sizes: Vec<Option<usize>>,
    compression: Option<String>,
    format: String,
    raw_data: ShardFile,
    zip_data: Option<ShardFile>,
    samples: usize,
}

#[derive(Clone, Deserialize, PartialEq)]
struct ShardFile {
    basename: String,
    bytes: u64,
}

#[derive(Deserialize)]
struct MdsIndex {
    shards: Vec<Shard>,
}

/// A column of the written Parquet files.
struct MdsColumn {
    name: String,
    encoding: MdsEncoding,
    /// The size of every value in bytes; `None` if each sample states the size of its value.
    bytes: Option<usize>,
}

impl MdsShards {
    /// Reads the index files among the files that were found.
    pub(super) fn open(found: &[DiskFile]) -> Result<Self> {
        let indexes = found.iter().filter(|file| FoundKind::of_name(&file.relative) == Some(FoundKind::Mds));
        let (mut files, mut shards): (Vec<DiskFile>, Vec<Shard>) = (Vec::new(), Vec::new());
        for index in indexes {
            let about: MdsIndex = serde_json::from_slice(&read_file(&index.path)?).map_err(|error| {
                Error::new(ErrorKind::Corrupt, format!("this is not the index of MDS: {error}"))
                    .at(place(&index.path))
            })?;
            for shard in about.shards {
                let (path, bytes) = shard.stored(&index.path)?;
                let relative = format!("{}/{}", index.relative, shard.raw_data.basename);
                files.push(DiskFile { path, relative, bytes });
                shards.push(shard);
            }
        }
        let Some(first) = shards.first() else {
            return Err(Error::invalid("the index lists no shards").hint("there is nothing to write"));
        };
        let same = |shard: &Shard| {
            shard.column_names == first.column_names && shard.column_encodings == first.column_encodings
        };
        if let Some(other) = shards.iter().position(|shard| !same(shard)) {
            let error = Error::invalid("the columns of this shard are others than those of the first one");
            return Err(error.at(place(&files[other].path)).hint("write them as two data sets"));
        }
        let columns = first.columns().map_err(|error| error.at(place(&files[0].path)))?;
        let fields: Vec<Field> = columns
            .iter()
            .map(|column| Field::new(&column.name, column.encoding.data_type(), false))
            .collect();
        Ok(MdsShards { files, shards, columns, schema: Arc::new(Schema::new(fields)) })
    }

    /// Makes a batch of these samples of a shard; `first` is the ordinal of the first one.
    fn batch(&self, samples: &[&[u8]], first: u64) -> Result<RecordBatch> {
        let mut values: Vec<Vec<&[u8]>> = vec![Vec::with_capacity(samples.len()); self.columns.len()];
        for sample in samples {
            let mut sizes = *sample;
            let variable = self.columns.iter().filter(|column| column.bytes.is_none()).count();
            let mut rest = cut(&mut sizes, variable * size_of::<u32>())
                .map(|sizes_of| (sizes_of, sizes))
                .ok_or_else(too_short)?;
            for (column, values) in self.columns.iter().zip(&mut values) {
                let bytes = match column.bytes {
                    Some(bytes) => bytes,
                    None => number(cut(&mut rest.0, size_of::<u32>()).ok_or_else(too_short)?) as usize,
                };
                values.push(cut(&mut rest.1, bytes).ok_or_else(too_short)?);
            }
        }
        let arrays = self.columns.iter().zip(values).map(|(column, values)| {
            column.encoding.array(&values).map_err(|(row, error)| {
                error.at(Place::default().row(first + row as u64).column(column.name.as_str()))
            })
        });
        let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
        RecordBatch::try_new(self.schema.clone(), arrays).or_fail()
    }
}

impl TableSource for MdsShards {
    fn kind(&self) -> &'static str {
        "MDS shards"
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn files(&self) -> &[DiskFile] {
        &self.files
    }

    fn read(&self, file: usize, take: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let (path, shard) = (&self.files[file].path, &self.shards[file]);
        let stored = read_file(path)?;
        let mut raw = Vec::new();
        let limit = shard.raw_data.bytes.saturating_add(1);
        let unpacked = match path.extension().and_then(|ending| ending.to_str()) {
            Some("zstd") => {
                zstd::Decoder::new(&stored[..]).and_then(|decoder| decoder.take(limit).read_to_end(&mut raw))
            }
            Some("gz") => MultiGzDecoder::new(&stored[..]).take(limit).read_to_end(&mut raw),
            _ => {
                raw = stored;
                Ok(raw.len())
            }
        };
        unpacked.map_err(|error| {
            Error::new(ErrorKind::Corrupt, format!("the shard cannot be unpacked: {error}"))
                .hint("copy it again")
        })?;
        if raw.len() as u64 != shard.raw_data.bytes {
            let cause =
                format!("the shard has {} bytes, and its index says {}", raw.len(), shard.raw_data.bytes);
            return Err(Error::new(ErrorKind::Corrupt, cause).hint("copy it again"));
        }
        let samples = divide(&raw)?;
        if samples.len() != shard.samples {
            let cause = format!("the shard has {} rows, and its index says {}", samples.len(), shard.samples);
            return Err(Error::new(ErrorKind::Corrupt, cause).hint("copy it again"));
        }
        let batches = samples.chunks(BATCH_ROWS).zip((0..).step_by(BATCH_ROWS));
        batches.into_iter().try_for_each(|(samples, first)| take(self.batch(samples, first)?))
    }
}

impl Shard {
    /// The path and the size of the shard's file. The compressed file is used only if there is no
    /// uncompressed one.
    fn stored(&self, index: &Path) -> Result<(PathBuf, u64)> {
        if self.format != "mds" {
            let cause = format!("the index lists shards of the format {:?}", self.format);
            return Err(Error::new(ErrorKind::Unsupported, cause).at(place(index)).hint("MDS is read"));
        }
        let files = [Some(&self.raw_data), self.zip_data.as_ref()];
        for file in files.into_iter().flatten() {
            if Path::new(&file.basename).components().count() != 1 || file.basename == ".." {
                let error = Error::new(
                    ErrorKind::Corrupt,
                    format!("a shard is not beside its index: {}", file.basename),
                );
                return Err(error.at(place(index)));
            }
            let path = beside(index, &file.basename);
            let ending = Path::new(&file.basename).extension().and_then(|ending| ending.to_str());
            if path.exists() && !matches!(ending, Some("mds" | "zstd" | "gz")) {
                let cause = format!("shards with the ending {:?} are not read", ending.unwrap_or_default());
                let error = Error::new(ErrorKind::Unsupported, cause).at(place(&path));
                return Err(error.hint("unpack them: zstd and gz are read"));
            }
            if path.exists() {
                return Ok((path, file.bytes));
            }
        }
        let known =
            self.compression.as_ref().map_or(String::new(), |codec| format!(", or compressed as {codec}"));
        let error = Error::new(ErrorKind::NotFound, format!("this shard of the index is missing{known}"));
        Err(error.at(place(&beside(index, &self.raw_data.basename))))
    }

    fn columns(&self) -> Result<Vec<MdsColumn>> {
        let Shard { column_names, column_encodings, column_sizes, .. } = self;
        let names: HashSet<&String> = column_names.iter().collect();
        if names.len() != column_names.len()
            || column_encodings.len() != column_names.len()
            || column_sizes.len() != column_names.len()
        {
            return Err(Error::new(ErrorKind::Corrupt, "the index does not describe each column once"));
        }
        let columns = column_names.iter().zip(column_encodings).zip(column_sizes);
        columns
            .map(|((name, encoding), bytes)| {
                let encoding = MdsEncoding::of_text(encoding)
                    .map_err(|error| error.at(Place::default().column(name.as_str())))?;
                if encoding.fixed_bytes().is_some() && encoding.fixed_bytes() != *bytes {
                    return Err(Error::new(
                        ErrorKind::Corrupt,
                        "the index gives values of another size than theirs",
                    )
                    .at(Place::default().column(name.as_str())));
                }
                Ok(MdsColumn { name: name.clone(), encoding, bytes: *bytes })
            })
            .collect()
    }
}

/// Divides the decompressed bytes of a shard into its samples.
fn divide(raw: &[u8]) -> Result<Vec<&[u8]>> {
    let mut head = raw;
    let count = number(cut(&mut head, size_of::<u32>()).ok_or_else(too_short)?) as usize;
    let mut offsets = cut(&mut head, (count + 1) * size_of::<u32>()).ok_or_else(too_short)?;
    let mut start = number(cut(&mut offsets, size_of::<u32>()).ok_or_else(too_short)?) as usize;
    let sample = |_| {
        let end = number(cut(&mut offsets, size_of::<u32>()).ok_or_else(too_short)?) as usize;
        let sample = raw.get(start..end).ok_or_else(too_short)?;
        start = end;
        Ok(sample)
    };
    (0..count).map(sample).collect()
}

fn too_short() -> Error {
    Error::new(ErrorKind::Corrupt, "the shard ends within a row").hint("copy it again")
}
