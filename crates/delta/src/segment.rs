//! Chooses the files of a log that a version needs.

use std::collections::BTreeMap;

use forebay_base::{Error, ErrorKind, Result};

use crate::name::LogFile;

/// A file of the log in a listing.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// The name of the file in the folder of the log.
    pub name: String,
    /// The time of the file's last change, in milliseconds since 1970.
    pub modified: i64,
}

/// The files of a log that make one version: a checkpoint, and the commits after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The version that results from these files.
    pub version: u64,
    /// The commits from the newest to the oldest, as indices into the listing.
    pub commits: Vec<Commit>,
    /// The parts of the checkpoint, as indices into the listing; empty if `commits` go back to the
    /// first commit of the log.
    pub checkpoint: Vec<usize>,
}

/// A commit in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The version that the commit made.
    pub version: u64,
    /// The index of the commit in the listing.
    pub entry: usize,
}

/// The commits of a listing, from the oldest to the newest.
pub fn commits(entries: &[LogEntry]) -> Vec<Commit> {
    let commit = |(entry, about): (usize, &LogEntry)| match LogFile::parse(&about.name)? {
        LogFile::Commit(version) => Some(Commit { version, entry }),
        LogFile::Checkpoint { .. } => None,
    };
    let mut commits: Vec<Commit> = entries.iter().enumerate().filter_map(commit).collect();
    commits.sort_unstable_by_key(|commit| commit.version);
    commits
}

impl Segment {
    /// Chooses the files that make up the version `wanted`, or the newest version.
    ///
    /// # Errors
    /// `NotFound` for a log without a version, and for a version that the log does not have, or no longer
    /// has; `Corrupt` if a commit is missing.
    pub fn from_entries(entries: &[LogEntry], wanted: Option<u64>) -> Result<Self> {
        let commits = commits(entries);
        let checkpoints = checkpoints(entries);
        let newest = commits.last().map(|commit| commit.version);
        let newest = newest.max(checkpoints.last_key_value().map(|(version, _)| *version));
        let Some(newest) = newest else {
            return Err(Error::new(
                ErrorKind::NotFound,
                "the log of the table has no commit and no checkpoint",
            ));
        };
        let version = wanted.unwrap_or(newest);
        if version > newest {
            let cause = format!("the table has no version {version}: the newest is {newest}");
            return Err(Error::new(ErrorKind::NotFound, cause));
        }
        let (base, checkpoint) = match checkpoints.range(..=version).next_back() {
            Some((base, parts)) => (Some(*base), parts.clone()),
            None => (None, Vec::new()),
        };
        let first = base.map_or(0, |base| base + 1);
        let from = commits.partition_point(|commit| commit.version < first);
        let to = commits.partition_point(|commit| commit.version <= version);
        let mut behind = commits.get(from..to).unwrap_or_default().to_vec();
        let gap = behind.iter().zip(first..).find(|(commit, expected)| commit.version != *expected);
        let missing = match gap {
            Some((_, missing)) => Some(missing),
            None => (behind.len() as u64 != (version + 1).saturating_sub(first)).then_some(version),
        };
        if let Some(missing) = missing {
            let oldest = oldest(&commits, &checkpoints).filter(|oldest| *oldest > version);
            return Err(match oldest {
                Some(oldest) => {
                    let cause =
                        format!("version {version} is not in the log any more: the oldest is {oldest}");
                    Error::new(ErrorKind::NotFound, cause)
                }
                None => {
                    let cause = format!("the log lacks the commit of version {missing}");
                    Error::new(ErrorKind::Corrupt, cause)
                        .hint(format!("restore {missing:020}.json, or open an older version with `version`"))
                }
            });
        }
        behind.reverse();
        Ok(Segment { version, commits: behind, checkpoint })
    }
}

/// The oldest version that the listed files can still make.
fn oldest(commits: &[Commit], checkpoints: &BTreeMap<u64, Vec<usize>>) -> Option<u64> {
    match commits.first().map(|commit| commit.version) {
        Some(0) => Some(0),
        _ => checkpoints.first_key_value().map(|(version, _)| *version),
    }
}

/// The complete checkpoints in a listing: for each version, the indices of its parts in the listing.
fn checkpoints(entries: &[LogEntry]) -> BTreeMap<u64, Vec<usize>> {
    let mut whole = BTreeMap::new();
    let mut parts: BTreeMap<(u64, u32), BTreeMap<u32, usize>> = BTreeMap::new();
    for (entry, about) in entries.iter().enumerate() {
        match LogFile::parse(&about.name) {
            Some(LogFile::Checkpoint { version, part: None }) => {
                whole.insert(version, vec![entry]);
            }
            Some(LogFile::Checkpoint { version, part: Some((part, of)) }) => {
                parts.entry((version, of)).or_default().insert(part, entry);
            }
            Some(LogFile::Commit(_)) | None => {}
        }
    }
    for ((version, of), parts) in parts {
        if parts.len() as u64 == u64::from(of) {
            whole.entry(version).or_insert_with(|| parts.into_values().collect());
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(names: &[&str]) -> Vec<LogEntry> {
        let name = |name: &&str| match name.split_once('.') {
            Some((version, rest)) => format!("{version:0>20}.{rest}"),
            None => (*name).to_owned(),
        };
        names.iter().map(|of| LogEntry { name: name(of), modified: 0 }).collect()
    }

    /// The version of the segment, the versions of its commits and the indices of its checkpoint's parts, or
    /// the error message.
    fn segment(names: &[&str], wanted: Option<u64>) -> Result<(u64, Vec<u64>, Vec<usize>), String> {
        let made = Segment::from_entries(&entries(names), wanted).map_err(|error| error.to_string())?;
        Ok((made.version, made.commits.iter().map(|commit| commit.version).collect(), made.checkpoint))
    }

    #[test]
    fn a_version_is_the_newest_checkpoint_before_it_and_the_commits_behind() {
        let all = ["0.json", "1.json", "2.json", "1.checkpoint.parquet", "_last_checkpoint", "3.json"];
        assert_eq!(segment(&all, None).unwrap(), (3, vec![3, 2], vec![3]));
        assert_eq!(segment(&all, Some(1)).unwrap(), (1, vec![], vec![3]));
        assert_eq!(segment(&all, Some(0)).unwrap(), (0, vec![0], vec![]));
        let alone = ["7.checkpoint.parquet"];
        assert_eq!(segment(&alone, None).unwrap(), (7, vec![], vec![0]));
    }

    #[test]
    fn a_checkpoint_of_parts_counts_once_all_are_there() {
        let one = "1.checkpoint.0000000001.0000000002.parquet";
        let two = "1.checkpoint.0000000002.0000000002.parquet";
        assert_eq!(segment(&["0.json", "1.json", two, one], None).unwrap(), (1, vec![], vec![3, 2]));
        assert_eq!(segment(&["0.json", "1.json", two], None).unwrap(), (1, vec![1, 0], vec![]));
    }

    #[test]
    fn versions_that_are_not_there_are_refused_by_their_number() {
        let refusal = |names: &[&str], wanted| segment(names, wanted).unwrap_err();
        assert_eq!(refusal(&["0.json"], Some(3)), "the table has no version 3: the newest is 0");
        assert_eq!(
            refusal(&["_last_checkpoint"], None),
            "the log of the table has no commit and no checkpoint"
        );
        let cleaned = ["4.json", "5.json", "5.checkpoint.parquet", "6.json"];
        assert_eq!(refusal(&cleaned, Some(4)), "version 4 is not in the log any more: the oldest is 5");
        assert!(refusal(&["0.json", "2.json"], None).starts_with("the log lacks the commit of version 1 ("));
        assert!(
            refusal(&["0.json", "3.json"], Some(2)).starts_with("the log lacks the commit of version 2 (")
        );
        let behind = ["2.checkpoint.parquet", "4.json"];
        assert!(refusal(&behind, None).starts_with("the log lacks the commit of version 3 ("));
    }
}
