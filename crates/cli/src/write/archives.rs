//! Reads WebDataset's tars: neighbouring files whose names differ only in their endings are the columns of
//! one row.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::BufReader;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use forebay_arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use forebay_arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};
use rayon::prelude::*;
use tar::{Archive, EntryType};

use super::features::{self, Feature};
use super::folder::DiskFile;
use super::read::{place, unreadable};
use super::source::RowSource;
use crate::image_endings::IMAGE_ENDINGS;
use crate::units::counted;

/// The column with the name that the files of a row share.
const KEY: &str = "__key__";
/// The largest number of characters of a text that an error message shows.
const SHOWN_CHARS: usize = 20;
/// The name of the image column if no row has more than one image.
const IMAGE: &str = "image";

/// The rows of all tars.
pub(super) struct Archives {
    tars: Vec<DiskFile>,
    samples: Vec<TarRow>,
    columns: Vec<MemberColumn>,
    schema: SchemaRef,
    /// The number of files that belong to no row.
    others: u64,
    /// The index of the first row with two images; `None` if each row has at most one. If there is one, every
    /// image ending, such as `jpg` or `png`, gets a column of its own.
    with_two_images: Option<usize>,
}

/// A row: neighbouring files of a tar that share a name.
struct TarRow {
    tar: usize,
    key: String,
    /// The files of the row, by their endings in small letters.
    members: BTreeMap<String, Member>,
}

/// The place of a file in a tar.
#[derive(Clone, Copy)]
struct Member {
    offset: u64,
    bytes: u64,
}

/// A column of the written Parquet files.
struct MemberColumn {
    name: String,
    /// The file endings of this column. A row has at most one file with one of these endings.
    endings: BTreeSet<String>,
    form: MemberForm,
}

/// How the contents of a column's files are stored.
#[derive(Clone, Copy, PartialEq)]
enum MemberForm {
    Bytes,
    Text,
    /// A whole number in digits.
    Int,
}

impl Archives {
    pub(super) const KIND: &str = "WebDataset tars";

    /// Reads the headers in all tars, but not the contents of their files. The columns named in `texts` are
    /// stored as text.
    pub(super) fn open(tars: Vec<DiskFile>, texts: &[String]) -> Result<Self> {
        let read: Vec<(Vec<TarRow>, u64)> = tars
            .par_iter()
            .enumerate()
            .map(|(tar, found)| samples(tar, &found.path).map_err(|error| error.at(place(&found.path))))
            .collect::<Result<_>>()?;
        let others = read.iter().map(|(_, others)| others).sum();
        let samples: Vec<TarRow> = read.into_iter().flat_map(|(samples, _)| samples).collect();
        if samples.is_empty() {
            return Err(Error::invalid("the tars hold no files").hint("there is nothing to write"));
        }
        let with_two_images = samples.iter().position(|sample| sample.images().count() > 1);
        let mut columns = columns(&samples, with_two_images.is_none())?;
        for name in texts {
            let Some(column) = columns.iter_mut().find(|column| column.name == *name) else {
                let error = Error::new(ErrorKind::UnknownColumn, format!("there is no column {name:?}"));
                let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
                return Err(error.hint(format!("there are {}", names.join(", "))));
            };
            column.form = MemberForm::Text;
        }
        let field = |column: &MemberColumn| {
            let of = match column.form {
                MemberForm::Bytes => DataType::Binary,
                MemberForm::Text => DataType::Utf8,
                MemberForm::Int => DataType::Int64,
            };
            let is_missing = samples.iter().any(|sample| column.member(sample).is_none());
            Field::new(&column.name, of, is_missing)
        };
        let fields: Vec<Field> = std::iter::once(Field::new(KEY, DataType::Utf8, false))
            .chain(columns.iter().map(field))
            .collect();
        let feature = |column: &MemberColumn| match column.form {
            MemberForm::Bytes
                if column.endings.iter().all(|ending| IMAGE_ENDINGS.contains(&ending.as_str())) =>
            {
                Feature::Image
            }
            MemberForm::Bytes => Feature::Value("binary"),
            MemberForm::Text => Feature::Value("string"),
            MemberForm::Int => Feature::Value("int64"),
        };
        let mut features = vec![(KEY, Feature::Value("string"))];
        features.extend(columns.iter().map(|column| (column.name.as_str(), feature(column))));
        let schema = Arc::new(Schema::new(fields).with_metadata(features::notes(&features)));
        Ok(Archives { tars, samples, columns, schema, others, with_two_images })
    }

    /// The contents of the column's file in each of these rows; `None` for a row without such a file.
    fn contents(&self, column: &MemberColumn, rows: &[usize]) -> Result<Vec<Option<Vec<u8>>>> {
        rows.par_iter()
            .map(|row| {
                let sample = &self.samples[*row];
                let Some(member) = column.member(sample) else { return Ok(None) };
                let path = &self.tars[sample.tar].path;
                let mut bytes = vec![0; member.bytes as usize];
                let read = File::open(path).and_then(|tar| tar.read_exact_at(&mut bytes, member.offset));
                read.map(|()| Some(bytes)).map_err(|error| unreadable(path, &error))
            })
            .collect()
    }

    fn values(&self, column: &MemberColumn, rows: &[usize]) -> Result<ArrayRef> {
        let contents = self.contents(column, rows)?;
        let place = |row: usize| {
            let sample = &self.samples[rows[row]];
            place(&self.tars[sample.tar].path).column(format!("{} of {}", column.name, sample.key))
        };
        let text = |(row, content): (usize, Option<Vec<u8>>)| {
            let text = content.map(String::from_utf8).transpose();
            text.map_err(|_| Error::new(ErrorKind::Corrupt, "this text is not UTF-8").at(place(row)))
        };
        if column.form == MemberForm::Bytes {
            return Ok(Arc::new(BinaryArray::from_iter(contents)));
        }
        let texts: Vec<Option<String>> = contents.into_iter().enumerate().map(text).collect::<Result<_>>()?;
        if column.form == MemberForm::Text {
            return Ok(Arc::new(StringArray::from(texts)));
        }
        let number = |(row, text): (usize, &Option<String>)| {
            let number = text.as_ref().map(|text| text.trim().parse::<i64>()).transpose();
            number.map_err(|_| {
                let start: String = text.iter().flat_map(|text| text.chars()).take(SHOWN_CHARS).collect();
                Error::new(ErrorKind::Corrupt, format!("a file .cls holds no whole number: {start:?}"))
                    .at(place(row))
                    .hint(format!("--text {} writes the column as text", column.name))
            })
        };
        let numbers: Vec<Option<i64>> = texts.iter().enumerate().map(number).collect::<Result<_>>()?;
        Ok(Arc::new(Int64Array::from(numbers)))
    }
}

impl RowSource for Archives {
    fn kind(&self) -> &'static str {
        Archives::KIND
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn len(&self) -> usize {
        self.samples.len()
    }

    fn row_bytes(&self, row: usize) -> u64 {
        self.samples[row].members.values().map(|member| member.bytes).sum()
    }

    fn identity(&self, row: usize) -> String {
        let TarRow { tar, key, members } = &self.samples[row];
        let bytes: Vec<String> = members.values().map(|member| member.bytes.to_string()).collect();
        format!("{} {key} {}", self.tars[*tar].relative, bytes.join(" "))
    }

    fn read(&self, rows: &[usize]) -> Result<RecordBatch> {
        let keys = StringArray::from_iter_values(rows.iter().map(|row| self.samples[*row].key.as_str()));
        let mut columns: Vec<ArrayRef> = vec![Arc::new(keys)];
        for column in &self.columns {
            columns.push(self.values(column, rows)?);
        }
        RecordBatch::try_new(self.schema.clone(), columns).or_fail()
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.others > 0 {
            let others = counted(self.others, "file");
            remarks.push(format!("left out, since they are notes or have no ending: {others}"));
        }
        if let Some(row) = self.with_two_images {
            let TarRow { tar, key, .. } = &self.samples[row];
            let endings: Vec<&str> = self.samples[row].images().collect();
            remarks.push(format!(
                "no column {IMAGE}, but one for each ending: {key} in {} has {}",
                self.tars[*tar].relative,
                endings.join(" and ")
            ));
        }
        remarks
    }
}

impl TarRow {
    /// The endings of the row's images.
    fn images(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str).filter(|ending| IMAGE_ENDINGS.contains(ending))
    }
}

impl MemberColumn {
    /// The file of a row that belongs to this column.
    fn member(&self, sample: &TarRow) -> Option<Member> {
        self.endings.iter().find_map(|ending| sample.members.get(ending)).copied()
    }
}

/// The rows of one tar, and the number of its files that belong to no row.
fn samples(tar: usize, path: &Path) -> Result<(Vec<TarRow>, u64)> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let length = file.metadata().map_err(|error| unreadable(path, &error))?.len();
    let damaged =
        |error: std::io::Error| Error::new(ErrorKind::Corrupt, format!("the tar is damaged: {error}"));
    let mut archive = Archive::new(BufReader::new(file));
    // Concatenated tars have zeros between them.
    archive.set_ignore_zeros(true);
    let mut samples: Vec<TarRow> = Vec::new();
    let mut keys: HashSet<String> = HashSet::new();
    // The files by name, because a hard link refers to an earlier file by its name.
    let mut members: HashMap<String, Member> = HashMap::new();
    let mut others = 0;
    for entry in archive.entries_with_seek().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let name = utf8(&entry.path_bytes())?;
        let kind = entry.header().entry_type();
        let is_sparse = kind.is_gnu_sparse() || has_sparse_notes(&mut entry).map_err(damaged)?;
        let member = match kind {
            EntryType::Directory => continue,
            _ if is_sparse => {
                let error = Error::new(ErrorKind::Unsupported, format!("{name} is sparse"));
                return Err(error.hint("make the tar again without -S"));
            }
            EntryType::Link => {
                let link = utf8(&entry.link_name_bytes().unwrap_or_default())?;
                let found = members.get(&link).copied();
                found.ok_or_else(|| {
                    let cause = format!("{name} is a link to {link}, which is not before it");
                    Error::new(ErrorKind::Corrupt, cause)
                })?
            }
            EntryType::Symlink => {
                let error = Error::new(ErrorKind::Unsupported, format!("{name} is a symbolic link"));
                return Err(error.hint("make the tar again with --dereference"));
            }
            kind if !kind.is_file() => continue,
            _ => Member { offset: entry.raw_file_position(), bytes: entry.size() },
        };
        if member.offset.checked_add(member.bytes).is_none_or(|end| end > length) {
            return Err(Error::new(ErrorKind::Corrupt, format!("the tar ends within {name}"))
                .hint("copying it may have been interrupted: copy it again"));
        }
        members.insert(name.clone(), member);
        let Some((key, ending)) = split(&name) else {
            others += 1;
            continue;
        };
        if samples.last().is_none_or(|sample| sample.key != key) {
            if !keys.insert(key.to_owned()) {
                let cause = format!("the files of {key} are not together in the tar");
                return Err(Error::new(ErrorKind::Corrupt, cause)
                    .hint("make it again with --sort=name: neighbouring files are one row"));
            }
            samples.push(TarRow { tar, key: key.to_owned(), members: BTreeMap::new() });
        }
        let Some(sample) = samples.last_mut() else { continue };
        if sample.members.insert(ending.clone(), member).is_some() {
            return Err(Error::new(ErrorKind::Corrupt, format!("{key} has two files .{ending} in this tar"))
                .hint("WebDataset gives each row a name of its own"));
        }
    }
    Ok((samples, others))
}

/// A name in a tar, without the folder `./` in front.
fn utf8(name: &[u8]) -> Result<String> {
    let name = std::str::from_utf8(name).map_err(|_| {
        let shown = String::from_utf8_lossy(name);
        Error::new(ErrorKind::Unsupported, format!("the name of a file is not UTF-8: {shown:?}"))
            .hint("rename it, and make the tar again")
    })?;
    Ok(name.strip_prefix("./").unwrap_or(name).to_owned())
}

/// Whether the extended header (PAX) of an entry marks it as a sparse file.
fn has_sparse_notes<R: std::io::Read>(entry: &mut tar::Entry<'_, R>) -> std::io::Result<bool> {
    let Some(notes) = entry.pax_extensions()? else { return Ok(false) };
    for note in notes {
        if note?.key_bytes().starts_with(b"GNU.sparse.") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Splits a file name at its first dot into the name of the row and the ending. Returns `None` for a file
/// that belongs to no row: it has no ending, or its name begins with `__`.
fn split(name: &str) -> Option<(&str, String)> {
    let base = name.rfind('/').map_or(0, |slash| slash + 1);
    let dot = base + name[base..].find('.')?;
    let (key, ending) = (&name[..dot], &name[dot + 1..]);
    let is_row = dot > base && !ending.is_empty() && !name[base..].starts_with("__");
    is_row.then(|| (key, ending.to_ascii_lowercase()))
}

/// Makes a column for each ending. If no row has two images (`has_one_image`), all image endings share one
/// column. A dot in a name becomes an underscore, because a dot separates a column from its nested fields.
fn columns(samples: &[TarRow], has_one_image: bool) -> Result<Vec<MemberColumn>> {
    let endings: BTreeSet<&String> = samples.iter().flat_map(|sample| sample.members.keys()).collect();
    let is_image = |ending: &str| IMAGE_ENDINGS.contains(&ending);
    let mut columns: Vec<MemberColumn> = Vec::new();
    for ending in endings {
        let name = match has_one_image && is_image(ending) {
            true => IMAGE.to_owned(),
            false => ending.replace('.', "_"),
        };
        let form = match ending.as_str() {
            "cls" => MemberForm::Int,
            "txt" | "text" | "json" => MemberForm::Text,
            _ => MemberForm::Bytes,
        };
        match columns.iter_mut().find(|column| column.name == name) {
            Some(column) if name == IMAGE && is_image(ending) && column.form == form => {
                column.endings.insert(ending.clone());
            }
            None if name != KEY => {
                columns.push(MemberColumn { name, endings: BTreeSet::from([ending.clone()]), form });
            }
            _ => {
                let error = Error::invalid(format!("files .{ending} would be a second column {name}"));
                return Err(error.hint("give them another ending"));
            }
        }
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_divided_at_its_first_dot() {
        assert_eq!(split("a/b.c/007.seg.PNG"), Some(("a/b.c/007", "seg.png".to_owned())));
        assert_eq!(split("007.jpg"), Some(("007", "jpg".to_owned())));
        for other in ["a/README", ".hidden", "007.", "__meta__.json"] {
            assert_eq!(split(other), None, "{other}");
        }
    }
}
