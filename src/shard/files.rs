//! A summary of a data set's files, which is saved with a position (the saved state of a run). It takes a few
//! hundred bytes, however many files there are, and shows which files were added, removed or changed since.
//!
//! Each file has a digest of its path and content. There are three tables of buckets. In each table, the path
//! of the file chooses a bucket, and a bucket holds the exclusive or of the digests of its files. So the
//! exclusive or of a saved bucket and a present one contains only the digests of files that differ: if it
//! equals the digest of a present file, that file was added, and its digest is taken out of its other buckets
//! (as in Eppstein and others, "What's the Difference? Efficient Set Reconciliation without Prior Context",
//! 2011). A file that changed is in buckets that differ in all tables, which is unlikely for a file that did
//! not change.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The number of tables.
const TABLES: usize = 3;
/// The number of buckets in each table.
const BUCKETS: usize = 21;

/// The most added or changed files that a message names by their paths.
const NAMES_SHOWN: usize = 3;

/// The files of a data set as a position stores them: their number, and sums that show which files changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SavedFiles {
    /// The number of files of the data set.
    pub files: u64,
    /// The number of rows in the files.
    pub rows: u64,
    /// The buckets of all tables, one table after the other, with eight hexadecimal digits for a bucket.
    sums: String,
}

/// A file whose digest is included in [`SavedFiles`].
pub(crate) struct CountedFile<'a> {
    /// The path of the file, relative to the location that was opened.
    pub(crate) path: &'a str,
    /// A hash of the content of the file.
    pub(crate) content: u64,
}

impl CountedFile<'_> {
    fn digest(&self) -> u32 {
        xxh3_64_with_seed(self.path.as_bytes(), self.content) as u32
    }

    /// The bucket of the file in each table.
    fn buckets(&self) -> [usize; TABLES] {
        let hash = xxh3_64(self.path.as_bytes());
        [0, 1, 2].map(|table| table * BUCKETS + (hash >> (21 * table)) as usize % BUCKETS)
    }
}

impl SavedFiles {
    pub(crate) fn new<'a>(rows: u64, files: impl Iterator<Item = CountedFile<'a>>) -> Self {
        let (mut count, mut sums) = (0, [0; TABLES * BUCKETS]);
        for file in files {
            count += 1;
            file.buckets().into_iter().for_each(|at| sums[at] ^= file.digest());
        }
        SavedFiles { files: count, rows, sums: sums.map(|sum: u32| format!("{sum:08x}")).concat() }
    }

    /// Describes the differences between the saved files and `here`, whose files are `files`.
    pub(crate) fn differences(&self, here: &SavedFiles, files: &[CountedFile<'_>]) -> String {
        let mut words = format!(
            "it was saved with {} and {}, here there are {} and {}",
            counted(self.files, "file"),
            counted(self.rows, "row"),
            counted(here.files, "file"),
            counted(here.rows, "row")
        );
        let Some(apart) = self.apart(here) else { return words };
        let DifferingFiles { added, rest } = DifferingFiles::listed(apart, files);
        let removed = (self.files + added.len() as u64).saturating_sub(here.files);
        let is_there =
            |at: &usize| !added.contains(at) && files[*at].buckets().iter().all(|at| rest[*at] != 0);
        let changed: Vec<usize> = match removed {
            0 if here.files == self.files + added.len() as u64 => (0..files.len()).filter(is_there).collect(),
            _ => Vec::new(),
        };
        if !added.is_empty() {
            words.push_str(&format!("; added: {}", named(&added.into_iter().collect::<Vec<_>>(), files)));
        }
        if removed > 0 && here.files + removed >= self.files {
            words.push_str(&format!("; removed: {}", counted(removed, "file")));
        }
        if !changed.is_empty() && changed.len() <= NAMES_SHOWN {
            words.push_str(&format!("; changed: {}", named(&changed, files)));
        }
        words
    }

    /// The numbers of those `files`, which are sorted by path, that this summary was made of, if files were
    /// only added since; otherwise `None`. Also `None` if more files were added than the summary can tell
    /// apart, unless they come after all others.
    pub(crate) fn earlier(&self, files: &[CountedFile<'_>]) -> Option<Vec<usize>> {
        let count = usize::try_from(self.files).ok()?;
        let summary = |files: &[CountedFile<'_>]| {
            let files = files.iter().map(|file| CountedFile { path: file.path, content: file.content });
            SavedFiles::new(0, files)
        };
        let DifferingFiles { added, rest } = DifferingFiles::listed(self.apart(&summary(files))?, files);
        if files.len() == count + added.len() && rest.iter().all(|sum| *sum == 0) {
            return Some((0..files.len()).filter(|at| !added.contains(at)).collect());
        }
        let first = self.apart(&summary(files.get(..count)?))?;
        first.iter().all(|sum| *sum == 0).then(|| (0..count).collect())
    }

    /// The exclusive or of the buckets of both summaries, which is 0 where they agree; `None` if a summary is
    /// damaged.
    fn apart(&self, other: &SavedFiles) -> Option<Vec<u32>> {
        let sums = |files: &SavedFiles| -> Option<Vec<u32>> {
            let sum = |at: usize| u32::from_str_radix(files.sums.get(8 * at..8 * at + 8)?, 16).ok();
            (0..TABLES * BUCKETS).map(sum).collect()
        };
        Some(sums(self)?.into_iter().zip(sums(other)?).map(|(saved, here)| saved ^ here).collect())
    }
}

/// The files that explain the differences between two sums.
struct DifferingFiles {
    /// The numbers of the files that were added.
    added: BTreeSet<usize>,
    /// The part of the differences that the added files do not explain.
    rest: Vec<u32>,
}

impl DifferingFiles {
    fn listed(mut rest: Vec<u32>, files: &[CountedFile<'_>]) -> Self {
        let mut added = BTreeSet::new();
        loop {
            let is_alone =
                |file: &CountedFile<'_>| file.buckets().iter().any(|at| rest[*at] == file.digest());
            let next = (0..files.len()).find(|at| !added.contains(at) && is_alone(&files[*at]));
            let Some(next) = next else { return DifferingFiles { added, rest } };
            added.insert(next);
            files[next].buckets().into_iter().for_each(|at| rest[at] ^= files[next].digest());
        }
    }
}

/// Names the first of these files by their paths, and the number of the others.
fn named(which: &[usize], files: &[CountedFile<'_>]) -> String {
    let names: Vec<&str> = which.iter().take(NAMES_SHOWN).map(|at| files[*at].path).collect();
    match which.len().saturating_sub(NAMES_SHOWN) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(then: &[(String, u64)], now: &[(String, u64)]) -> String {
        let files = |all: &[(String, u64)]| -> Vec<(String, u64)> { all.to_vec() };
        let (then, now) = (files(then), files(now));
        let counted = |all: &'_ [(String, u64)]| -> SavedFiles {
            SavedFiles::new(
                10 * all.len() as u64,
                all.iter().map(|(path, content)| CountedFile { path, content: *content }),
            )
        };
        let of_now: Vec<CountedFile> =
            now.iter().map(|(path, content)| CountedFile { path, content: *content }).collect();
        counted(&then).differences(&counted(&now), &of_now)
    }

    fn files(count: u64) -> Vec<(String, u64)> {
        (0..count).map(|at| (format!("part-{at:05}.parquet"), at * 7)).collect()
    }

    #[test]
    fn a_file_that_was_added_is_named_among_any_number() {
        for count in [1, 2, 40, 5_000] {
            let mut now = files(count);
            now.push(("late.parquet".to_owned(), 1));
            assert!(
                words(&files(count), &now).ends_with("; added: late.parquet"),
                "{}",
                words(&files(count), &now)
            );
        }
        let grown = words(&files(40), &files(48));
        assert!(
            grown.contains("it was saved with 40 files and 400 rows, here there are 48 files and 480 rows"),
            "{grown}"
        );
        assert!(
            grown.ends_with("; added: part-00040.parquet, part-00041.parquet, part-00042.parquet and 5 more"),
            "{grown}"
        );
    }

    #[test]
    fn what_was_changed_is_named_and_what_was_removed_is_counted() {
        for count in [1, 2, 40, 300] {
            let mut now = files(count);
            now[0].1 += 1;
            let changed = words(&files(count), &now);
            assert!(changed.contains("; changed: ") && changed.contains("part-00000.parquet"), "{changed}");
        }
        let removed = words(&files(41), &files(40));
        assert!(removed.ends_with("; removed: 1 file"), "{removed}");
        let mut renamed = files(40);
        renamed[3].0 = "other.parquet".to_owned();
        let renamed = words(&files(40), &renamed);
        assert!(renamed.ends_with("; added: other.parquet; removed: 1 file"), "{renamed}");
    }

    #[test]
    fn the_earlier_files_are_found_if_files_were_only_added() {
        let of = |all: &'_ [(String, u64)]| -> Option<Vec<usize>> {
            let then = files(300);
            let counted = |all: &'_ [(String, u64)]| -> SavedFiles {
                SavedFiles::new(0, all.iter().map(|(path, content)| CountedFile { path, content: *content }))
            };
            let here: Vec<CountedFile> =
                all.iter().map(|(path, content)| CountedFile { path, content: *content }).collect();
            counted(&then).earlier(&here)
        };
        assert_eq!(of(&files(300)), Some((0..300).collect()));
        assert_eq!(of(&files(5_000)), Some((0..300).collect()), "they come after the others");
        let among = |names: &[&str]| {
            let mut now = files(300);
            now.extend(names.iter().map(|name| ((*name).to_owned(), 3)));
            now.sort();
            now
        };
        let now = among(&["a.parquet", "part-00007b.parquet", "z.parquet"]);
        let expected = (0..303).filter(|at| files(300).contains(&now[*at])).collect();
        assert_eq!(of(&now), Some(expected));
        let mut changed = files(300);
        changed[3].1 += 1;
        assert_eq!(of(&changed), None);
        assert_eq!(of(&files(299)), None);
    }

    #[test]
    fn it_is_small_and_a_damaged_one_gives_counts_alone() {
        let saved = SavedFiles::new(1, std::iter::once(CountedFile { path: "a", content: 1 }));
        assert!(serde_json::to_string(&saved).unwrap().len() < 600);
        let damaged = SavedFiles { sums: "é".repeat(300), ..saved.clone() };
        assert_eq!(
            damaged.differences(&saved, &[]),
            "it was saved with 1 file and 1 row, here there are 1 file and 1 row"
        );
    }
}
