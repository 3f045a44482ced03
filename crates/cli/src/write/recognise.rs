//! Recognises the kind of a folder's files by their names, and opens them as a source of rows.

use std::path::Path;

use forebay_base::{Error, Result};

use super::archives::Archives;
use super::arrow_files::ArrowFiles;
use super::cells::NamedColumns;
use super::csv_files::CsvFiles;
use super::folder::{self, DiskFile, FoundKind};
use super::images::ClassFolders;
use super::json_files::JsonFiles;
use super::mds::MdsShards;
use super::source::WriteSource;
use crate::units::counted;

/// Opens the files of a folder as a source of rows. The remarks that it also returns are about files that are
/// left out.
pub(super) fn open(from: &Path, columns: NamedColumns) -> Result<(WriteSource, Vec<String>)> {
    let found = folder::find(from)?;
    let hidden = found.hidden_remark();
    let found = found.files;
    let Some(kind) = folder::kind(&found) else {
        let names: Vec<String> = found.iter().take(3).map(|file| file.relative.clone()).collect();
        let cause = match names.is_empty() {
            true => "the folder holds no files".to_owned(),
            false => format!("no file has a name that forebay write knows; it holds {}", names.join(", ")),
        };
        let is_packed = |file: &DiskFile| {
            [".tar.gz", ".tgz", ".tar.zst", ".zip"].iter().any(|ending| file.relative.ends_with(ending))
        };
        return Err(Error::invalid(cause).hint(match found.iter().any(is_packed) {
            true => "unpack archives first: tars are read without compression",
            false => {
                "it reads images, .tar, .csv, .tsv, .jsonl, .ndjson, .json, .arrow, .feather, and MDS with its index.json"
            }
        }));
    };
    let (files, others): (Vec<DiskFile>, Vec<DiskFile>) =
        found.into_iter().partition(|file| FoundKind::of_name(&file.relative) == Some(kind));
    let is_other = |file: &&DiskFile| !(kind == FoundKind::Mds && file.relative.contains(".mds"));
    let others = others.iter().filter(is_other).count() as u64;
    let remark = (others > 0)
        .then(|| format!("left out, since they are not {}: {}", kind.noun(), counted(others, "file")));
    let remarks = remark.into_iter().chain(hidden).collect();
    let source = match kind {
        FoundKind::Image => WriteSource::Rows(Box::new(ClassFolders::open(files)?)),
        FoundKind::Tar => WriteSource::Rows(Box::new(Archives::open(files, &columns.text)?)),
        FoundKind::Csv => WriteSource::Tables(Box::new(CsvFiles::open(files, columns)?)),
        FoundKind::Json => WriteSource::Tables(Box::new(JsonFiles::open(files, columns)?)),
        FoundKind::Arrow => WriteSource::Tables(Box::new(ArrowFiles::open(files)?)),
        FoundKind::Mds => WriteSource::Tables(Box::new(MdsShards::open(&files)?)),
    };
    Ok((source, remarks))
}
