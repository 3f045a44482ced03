//! Keeps results of reading whole columns on local disk, beside the footers: the rows that a filter selects,
//! the first row of each window of rows, and the lengths of rows. A second run of the same program then need
//! not read these columns to find them.
//!
//! There is one file for each data set and question (such as a filter). Its name is a hash of everything that
//! the answer depends on: the addresses and versions of the files, the question, and the version of this
//! library. A checksum protects the content, which has numbers of rows or lengths, but no values. If anything
//! fails here, the answer is computed again.

use std::fs;
use std::path::PathBuf;

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use super::metadata_cache::{SUFFIX_ROWS, Writing, folder, make_room};
use super::store::Store;
use crate::catalog::Catalog;
use crate::row_set::RowSet;

/// The first bytes of each file, which name its format.
const MAGIC: &[u8; 8] = b"FBROWS01";

/// The most bytes that are kept for one filter. A larger result is not kept.
const MAX_BYTES: usize = 256 << 20;

/// The file in which the answer to one question about a data set is kept.
pub struct KeptRows {
    path: PathBuf,
    key: u128,
}

impl KeptRows {
    /// The file for a filter in its canonical form, or for another text that says what is kept. Returns
    /// `None` if nothing should be kept. Blocks while it uses the disk.
    pub fn for_filter(store: &Store, catalog: &Catalog, filter: &str) -> Option<Self> {
        let folder = folder(store.metadata_cache.clone())?;
        let mut hash = Xxh3::new();
        let mut add = |text: &str| {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        add(env!("CARGO_PKG_VERSION"));
        add(filter);
        add(&catalog.fingerprint.to_string());
        for file in &catalog.files {
            add(&store.address(file));
            add(&file.version.for_keys());
        }
        let key = hash.digest128();
        Some(KeptRows { path: folder.join(format!("{key:032x}.{SUFFIX_ROWS}")), key })
    }

    /// Loads the selected rows of each row group, if they were kept. `live` has the rows of each row group
    /// that are not deleted; others cannot be selected.
    pub fn load(&self, live: &[RowSet]) -> Option<Vec<RowSet>> {
        let bytes = self.read()?;
        let mut rest = &bytes[..];
        let sets = live.iter().map(|live| {
            let set = RowSet::read(&mut rest, live.rows())?;
            (set.intersection(live) == set).then_some(set)
        });
        let sets = sets.collect::<Option<Vec<_>>>()?;
        rest.is_empty().then_some(sets)
    }

    /// Keeps the selected rows of each row group.
    pub fn keep(&self, sets: &[RowSet]) {
        let mut bytes = Vec::new();
        for set in sets {
            set.write(&mut bytes);
            if bytes.len() > MAX_BYTES {
                return;
            }
        }
        self.write(&bytes);
    }

    /// Loads the numbers that were kept for each row, if there are any. `counts` has the number of rows of
    /// each row group.
    pub fn load_numbers(&self, counts: &[u32]) -> Option<Vec<Vec<u32>>> {
        numbers(&self.read()?, counts)
    }

    /// Keeps one number for each row of each row group, such as the length of the row.
    pub fn keep_numbers(&self, numbers: &[Vec<u32>]) {
        self.keep_numbers_and_text(&[], numbers);
    }

    /// Loads the text and the numbers that [`keep_numbers_and_text`](Self::keep_numbers_and_text) kept.
    pub fn load_numbers_and_text(&self, counts: &[u32]) -> Option<(Vec<u8>, Vec<Vec<u32>>)> {
        let bytes = self.read()?;
        let (rest, length) = bytes.split_last_chunk::<4>()?;
        let start = rest.len().checked_sub(u32::from_le_bytes(*length) as usize)?;
        Some((rest[start..].to_vec(), numbers(&rest[..start], counts)?))
    }

    /// Keeps one number for each row of each row group, and a text, which must not be empty if it is to be
    /// loaded again.
    pub fn keep_numbers_and_text(&self, text: &[u8], numbers: &[Vec<u32>]) {
        let numbers = || numbers.iter().flatten().copied();
        let all = numbers().map(encoded_bytes).sum::<usize>() + text.len();
        if all > MAX_BYTES {
            return;
        }
        let mut bytes = Vec::with_capacity(all + size_of::<u32>());
        for mut number in numbers() {
            while number >= 0x80 {
                bytes.push(number as u8 | 0x80);
                number >>= 7;
            }
            bytes.push(number as u8);
        }
        if !text.is_empty() {
            bytes.extend_from_slice(text);
            bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        }
        self.write(&bytes);
    }

    /// Reads the kept bytes. Returns `None` if they are missing or damaged.
    fn read(&self) -> Option<Vec<u8>> {
        let mut bytes = fs::read(&self.path).ok()?;
        let (proof, rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
        let (head, is_whole) = (MAGIC.len() + proof.len(), u64::from_le_bytes(*proof) == self.proof(rest));
        bytes.drain(..head);
        is_whole.then_some(bytes)
    }

    fn write(&self, bytes: &[u8]) {
        let proof = self.proof(bytes).to_le_bytes();
        let Some(mut writing) = Writing::begin(&self.path) else { return };
        if [&MAGIC[..], &proof, bytes].into_iter().all(|part| writing.write(part)) && writing.keep() {
            make_room(&self.path);
        }
    }

    fn proof(&self, bytes: &[u8]) -> u64 {
        xxh3_64_with_seed(bytes, self.key as u64)
    }
}

/// The number of bytes in which a number is kept, with seven bits of it in each byte.
fn encoded_bytes(number: u32) -> usize {
    (number.checked_ilog2().unwrap_or(0) / 7) as usize + 1
}

/// Decodes one number for each row; `counts` has the number of rows of each row group. Returns `None` if the
/// bytes have fewer or more numbers.
fn numbers(bytes: &[u8], counts: &[u32]) -> Option<Vec<Vec<u32>>> {
    let mut rest = bytes.iter();
    let mut number = || {
        let (mut number, mut shift) = (0u64, 0);
        loop {
            let byte = *rest.next()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(number).ok();
            }
            shift += 7;
            if shift > 28 {
                return None;
            }
        }
    };
    let numbers: Option<Vec<Vec<u32>>> =
        counts.iter().map(|count| (0..*count).map(|_| number()).collect()).collect();
    numbers.filter(|_| rest.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_kept() {
        let folder = tempfile::tempdir().unwrap();
        let kept = KeptRows { path: folder.path().join(format!("x.{SUFFIX_ROWS}")), key: 7 };
        let numbers = [vec![0, 1, 127, 128, u32::MAX], vec![], vec![300]];
        assert_eq!(
            numbers.iter().flatten().copied().map(encoded_bytes).sum::<usize>(),
            1 + 1 + 1 + 2 + 5 + 2
        );
        kept.keep_numbers(&numbers);
        assert_eq!(kept.load_numbers(&[5, 0, 1]).unwrap(), numbers);
        assert!(kept.load_numbers(&[5, 0, 2]).is_none() && kept.load_numbers(&[5, 0, 0]).is_none());
        kept.keep_numbers_and_text(b"abc", &numbers);
        assert_eq!(kept.load_numbers_and_text(&[5, 0, 1]).unwrap(), (b"abc".to_vec(), numbers.to_vec()));
        assert!(kept.load_numbers_and_text(&[5, 0, 2]).is_none());
        assert!(KeptRows { key: 8, ..kept }.load_numbers(&[5, 0, 1]).is_none(), "of something else");
    }
}
