//! Parses lists of manifests, and the entries of a manifest.

use forebay_base::{Error, ErrorKind, Place, Result};

use crate::avro::{self, AvroValue, Wanted};
use crate::statistics::Stated;

/// The ids of the fields that are read from a list of manifests.
const LISTED: &[i32] = &[500, 501, 502, 515, 517, 519, 520];

/// The ids of the fields that are read from a manifest.
const ENTRY: &[i32] = &[
    0, 2, 3, 100, 101, 102, 103, 104, 110, 121, 122, 125, 126, 127, 128, 129, 130, 131, 132, 134, 135, 142,
    143, 144, 145,
];

/// The id of the field that holds a file's partition values.
const PARTITION: i32 = 102;

/// The name and field id of the column in which rewritten files keep the row ids that their rows had before.
/// A row with null in this column has the file's first row id plus the row's position as its id.
pub const ROW_ID_COLUMN: (&str, i32) = ("_row_id", 2_147_483_540);

/// An entry of a list of manifests. A manifest is a file that lists files of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The location of the manifest.
    pub location: String,
    /// The size of the manifest in bytes, if it is known.
    pub size: Option<u64>,
    /// The id of the partition spec (list of partition fields) of the files in the manifest.
    pub(crate) spec: i64,
    /// The sequence number of the commit that added the manifest.
    pub(crate) sequence: i64,
    /// Whether the manifest lists files that delete rows, and not data files.
    pub(crate) has_deletes: bool,
    /// The row id from which the manifest numbers the rows of those of its files that state no first row id
    /// themselves; `None` if the table does not track row ids.
    pub(crate) first_row_id: Option<i64>,
}

/// An entry of a manifest: a data file or a delete file that belongs to the snapshot.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) content: Content,
    pub(crate) location: Box<str>,
    pub(crate) format: Box<str>,
    pub(crate) partition: AvroValue,
    pub(crate) rows: u64,
    pub(crate) size: u64,
    /// The sequence number of the commit that added the file's rows.
    pub(crate) sequence: i64,
    /// The statistics of the file's columns, as the manifest states them.
    pub(crate) statistics: Stated,
    /// The number of row groups, if the manifest says where they begin.
    pub(crate) row_groups: Option<usize>,
    /// The id of the file's first row, if the table tracks row ids.
    pub(crate) first_row_id: Option<i64>,
    /// The field ids of the columns whose values identify the deleted rows, in a file that deletes by
    /// equality.
    pub(crate) equality: Vec<i32>,
    /// The location of the only data file whose rows this file deletes, if the manifest names one.
    pub(crate) deletes_of: Option<Box<str>>,
    /// The offset of a deletion vector in its file, and its length in bytes.
    pub(crate) blob: Option<(u64, u64)>,
}

/// The content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Rows,
    Positions,
    Equality,
}

impl Manifest {
    /// A manifest that a snapshot names directly, without a list of manifests (only tables of format version
    /// 1 do that).
    pub fn alone(location: &str) -> Self {
        Manifest {
            location: location.to_owned(),
            size: None,
            spec: 0,
            sequence: 0,
            has_deletes: false,
            first_row_id: None,
        }
    }
}

/// Parses a list of manifests.
///
/// # Errors
/// `Corrupt` if the bytes are not such a list, `Unsupported` for an encrypted manifest.
pub fn manifests(bytes: &[u8]) -> Result<Vec<Manifest>> {
    let mut all = Vec::new();
    avro::each(bytes, Wanted::fields(LISTED, 500), |mut record| {
        if record.take(519).is_some() {
            return Err(encrypted());
        }
        let mut number = |id| record.take(id).and_then(AvroValue::number);
        let size = number(501).and_then(|size| u64::try_from(size).ok());
        let (spec, sequence, content) =
            (number(502).unwrap_or(0), number(515).unwrap_or(0), number(517).unwrap_or(0));
        let first_row_id = number(520);
        let location = record.take(500).and_then(AvroValue::text).ok_or_else(|| lacks("a location"))?;
        let has_deletes = match content {
            0 => false,
            1 => true,
            other => return Err(unknown("a manifest", other)),
        };
        all.push(Manifest { location: location.into(), size, spec, sequence, has_deletes, first_row_id });
        Ok(())
    })?;
    Ok(all)
}

/// Passes each live file of a manifest to `take`.
///
/// # Errors
/// `Corrupt` if the bytes are not a manifest, `Unsupported` for encrypted files, and the errors of `take`.
pub(crate) fn each(
    manifest: &Manifest,
    bytes: &[u8],
    mut take: impl FnMut(Entry) -> Result<()>,
) -> Result<()> {
    let mut next_row_id = manifest.first_row_id;
    avro::each(bytes, Wanted::fields(ENTRY, PARTITION), |mut record| {
        let status = record.take(0).and_then(AvroValue::number).ok_or_else(|| lacks("a status"))?;
        let is_added = match status {
            0 => false,
            1 => true,
            // The file was removed.
            2 => return Ok(()),
            other => return Err(unknown("an entry", other)),
        };
        let sequence = match record.take(3).and_then(AvroValue::number) {
            Some(sequence) => sequence,
            // A file without a sequence number inherits that of its manifest if `is_added`, or if the
            // manifest's number is 0.
            None if is_added || manifest.sequence == 0 => manifest.sequence,
            None => return Err(lacks("its place in the order of commits")),
        };
        let file = record.take(2).ok_or_else(|| lacks("a file"))?;
        let mut entry = entry(file, sequence, manifest)?;
        // A file that states no first row id takes the ids after those of the previous such file in the
        // manifest.
        if manifest.first_row_id.is_none() {
            entry.first_row_id = None;
        } else if entry.first_row_id.is_none() {
            let first = next_row_id.ok_or_else(|| beyond(&entry.location))?;
            entry.first_row_id = Some(first);
            next_row_id = i64::try_from(entry.rows).ok().and_then(|rows| first.checked_add(rows));
        }
        take(entry)
    })
}

fn entry(mut file: AvroValue, sequence: i64, manifest: &Manifest) -> Result<Entry> {
    let location = file.take(100).and_then(AvroValue::text).ok_or_else(|| lacks("a location"))?;
    let parsed = (|| {
        let content = match file.take(134).and_then(AvroValue::number).unwrap_or(0) {
            0 => Content::Rows,
            1 => Content::Positions,
            2 => Content::Equality,
            other => return Err(unknown("a file", other)),
        };
        if (content != Content::Rows) != manifest.has_deletes {
            return Err(Error::new(
                ErrorKind::Corrupt,
                "the manifest has a file of another kind than it says",
            ));
        }
        if file.take(131).is_some() {
            return Err(encrypted());
        }
        let count = |value: Option<AvroValue>| {
            value.and_then(AvroValue::number).and_then(|count| u64::try_from(count).ok())
        };
        let ids = file.take(135).and_then(AvroValue::items).unwrap_or_default().into_iter();
        let ids = ids.map(|id| id.number().and_then(|id| i32::try_from(id).ok()));
        Ok(Entry {
            content,
            format: file.take(101).and_then(AvroValue::text).ok_or_else(|| lacks("a format"))?,
            partition: file.take(PARTITION).unwrap_or(AvroValue::Null),
            rows: count(file.take(103)).ok_or_else(|| lacks("a count of rows"))?,
            size: count(file.take(104)).ok_or_else(|| lacks("a size"))?,
            sequence,
            statistics: Stated::take(&mut file),
            row_groups: file.take(132).and_then(AvroValue::items).map(|groups| groups.len()),
            first_row_id: file.take(142).and_then(AvroValue::number),
            equality: ids.collect::<Option<_>>().ok_or_else(|| lacks("numbers of columns"))?,
            deletes_of: file.take(143).and_then(AvroValue::text),
            blob: count(file.take(144)).zip(count(file.take(145))),
            location: location.clone(),
        })
    })();
    parsed.map_err(|error: Error| error.at(Place::file(&*location)))
}

fn lacks(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("an entry of the manifest lacks {what}"))
}

fn beyond(location: &str) -> Error {
    Error::new(ErrorKind::Corrupt, "the manifest has more row ids than can be counted")
        .at(Place::file(location))
}

fn unknown(what: &str, kind: i64) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{what} of the table is of a kind that is not known, {kind}"))
}

fn encrypted() -> Error {
    Error::new(ErrorKind::Unsupported, "the table is encrypted, which is not read")
}
