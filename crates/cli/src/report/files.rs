//! The files of a report: either a page, or a folder with the report of each rank and one page of all ranks.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use forebay_base::{Error, ErrorKind, Place, Result};

use super::page::render;
use super::{Collected, RankReport};
use crate::page::is_page;

/// The name of the page in a folder.
const INDEX: &str = "index.html";
/// The most times that a rank writes the page. It writes the page again if other ranks have written their
/// reports meanwhile.
const TRIES: usize = 16;
/// The number of bytes at the beginning of a file that are read to find out whether it is a page of forebay.
const HEAD: u64 = 1_024;

/// Writes a page about a run and returns the path of the page. If `to` ends in `.html` or `.htm` and is not a
/// folder, the page is written to that file and shows only `report`. Otherwise `to` is a folder, which is
/// created if it is missing: `report` is written into it as JSON, and the page `index.html` in the folder
/// shows all reports there.
///
/// Each file is replaced as a whole. Several ranks may write into one folder at the same time: the last page
/// shows the reports of all of them.
///
/// # Errors
/// `Io` if a file cannot be written, and `Invalid` if the file that would be replaced is not a page of this
/// library.
pub fn write(to: &Path, report: &RankReport) -> Result<PathBuf> {
    if !is_folder(to) {
        check_replaced(to)?;
        let found = Collected { ranks: vec![report.clone()], left_out: Vec::new() };
        replace(to, &render(found, report)?)?;
        return Ok(to.to_path_buf());
    }
    fs::create_dir_all(to).map_err(|error| failed(to, &error))?;
    let (own, index) = (to.join(file_name(report.rank)), to.join(INDEX));
    check_replaced(&index)?;
    let json = serde_json::to_string(report)
        .map_err(|error| Error::new(ErrorKind::Internal, format!("cannot write JSON: {error}")))?;
    replace(&own, &json)?;
    let mut texts = read(to)?;
    for _ in 0..TRIES {
        replace(&index, &render(found(&texts, report), report)?)?;
        // After this rank read the folder, another rank may have written its report and its page. This rank
        // has now replaced that page by one without that report, so it reads the folder again until nothing
        // has changed.
        let now = read(to)?;
        if now == texts {
            break;
        }
        texts = now;
    }
    Ok(index)
}

/// Whether a path names a folder: it is one already, or its name does not end in `.html` or `.htm`.
fn is_folder(to: &Path) -> bool {
    let is_html = |end: &std::ffi::OsStr| ["html", "htm"].iter().any(|html| end.eq_ignore_ascii_case(html));
    to.is_dir() || !to.extension().is_some_and(is_html)
}

fn file_name(rank: u32) -> String {
    format!("rank-{rank}.json")
}

/// The text and the file name of each report in a folder, by rank.
fn read(folder: &Path) -> Result<Vec<(String, String)>> {
    let names = fs::read_dir(folder).map_err(|error| failed(folder, &error))?;
    let number = |name: &str| name.strip_prefix("rank-")?.strip_suffix(".json")?.parse::<u32>().ok();
    let names = names.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<(u32, String)> = names.filter_map(|name| Some((number(&name)?, name))).collect();
    names.sort_unstable();
    let text = |name: String| match fs::read_to_string(folder.join(&name)) {
        Ok(text) => Some(Ok((name, text))),
        // Another process has removed the file since the folder was listed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Err(failed(&folder.join(name), &error))),
    };
    names.into_iter().filter_map(|(_, name)| text(name)).collect()
}

/// Finds the reports that are of the same run as `own`.
fn found(texts: &[(String, String)], own: &RankReport) -> Collected {
    let mut found = Collected { ranks: Vec::new(), left_out: Vec::new() };
    for (name, text) in texts {
        match serde_json::from_str::<RankReport>(text) {
            Ok(report) if report.is_of_run(own) && file_name(report.rank) == *name => {
                found.ranks.push(report)
            }
            Ok(_) => found.left_out.push(format!("{name} is of another run and is left out")),
            Err(_) => found.left_out.push(format!("{name} is not a report of this version and is left out")),
        }
    }
    found
}

/// Refuses to replace a file that is not a page of this library.
fn check_replaced(file: &Path) -> Result<()> {
    let mut head = Vec::new();
    match fs::File::open(file).and_then(|file| file.take(HEAD).read_to_end(&mut head)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(file, &error)),
        Ok(_) if head.is_empty() || is_page(&String::from_utf8_lossy(&head)) => Ok(()),
        Ok(_) => Err(Error::invalid("the file is not a report, and would be replaced by one")
            .at(Place::file(file.to_string_lossy()))
            .hint("name a new file, or one that a report was written to")),
    }
}

/// Replaces a file as a whole: a reader finds either the old text or the new one.
fn replace(file: &Path, text: &str) -> Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    let mut name = std::ffi::OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(format!(".{}-{number}", std::process::id()));
    let part = file.with_file_name(name);
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, file));
    written.map_err(|error| {
        // The incomplete temporary file is useless, so it is removed.
        let _ = fs::remove_file(&part);
        failed(file, &error)
    })
}

fn failed(file: &Path, error: &io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("the report cannot be written: {error}"))
        .at(Place::file(file.to_string_lossy()))
        .hint("name a file or folder that can be written to")
}
