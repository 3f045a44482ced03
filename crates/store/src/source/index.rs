//! The index of a folder: one file with the footers of all files in the folder. With it, a process opens the
//! folder with a listing and one read.
//!
//! Only the footers of files that were added or changed after the index was written are read from the files.
//! An entry is found by the path of the file below the folder, and by its size and version in the listing.
//! Footers are stored unchanged, and are checked like those in files. A damaged index, a damaged entry, or an
//! index of another version of this format is not used, and a warning says so. Nothing else is lost, because
//! an index only saves requests.
//!
//! ```text
//! _forebay_index    magic, checksum of the rest
//!                   number of blocks
//!                   for each block     number of footers, bytes, bytes compressed
//!                   for each footer    key: a hash of path, size and version
//!                   for each block     compressed: length and checksum of each footer, and the footers
//! ```

mod handed_on;
mod load;
mod write;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::footer::LONGEST_FOOTER;
use crate::snapshot::Pin;

pub use handed_on::pack;
pub(super) use handed_on::{Packing, unpack};
pub(super) use load::{WRITE_AGAIN, load};
pub use write::{IndexReport, write_indexes};

/// The name of the index file. Other readers ignore names that begin with an underscore.
pub(super) const NAME: &str = "_forebay_index";

/// The first bytes of an index. They name the format; its version follows.
const MAGIC: &[u8; 7] = b"FBINDEX";
const VERSION: u8 = b'2';

/// The number of bytes of footers that are compressed together, as a block. Parts that they have in common
/// are then stored once, but not much must be decoded to get one footer.
const BLOCK_BYTES: usize = 1 << 20;

/// The compression level of zstd. Higher levels save little space and take several times as long.
const LEVEL: i32 = 3;

/// The size in bytes of the largest index that is read.
const MAX_BYTES: u64 = 2 << 30;

/// The index of a folder. In memory, the footers remain compressed.
pub(super) struct Index {
    /// The absolute path or URL of the folder; empty for an index that another process passed on.
    root: String,
    blocks: Vec<Block>,
    /// Where the footer of each file is, by the file's key: the number of the block, and the footer's number
    /// in the block.
    known: HashMap<u64, Found>,
    /// The footers of the block that was decoded last. Files are usually opened in the order in which their
    /// footers are stored.
    last: Mutex<Option<(u32, Vec<Proven>)>>,
    /// Whether a damaged entry was found.
    is_damaged: AtomicBool,
}

/// A footer, with a checksum that depends on its key, too.
#[derive(Clone)]
struct Proven {
    footer: Bytes,
    proof: u64,
}

/// The number of a block, and the number of a footer in the block.
type Found = (u32, u32);

/// Several footers, compressed together.
struct Block {
    footers: usize,
    bytes: usize,
    compressed: Bytes,
}

impl Index {
    /// Reads the index of the folder `root`, or returns the reason why it cannot be used.
    fn read(root: String, bytes: Bytes) -> Result<Self, &'static str> {
        const DAMAGED: &str = "it is damaged";
        let mut input = IndexBytes(bytes);
        if input.take(MAGIC.len()).is_none_or(|magic| *magic != *MAGIC) {
            return Err("it is something else");
        }
        if input.take(1).is_none_or(|version| *version != [VERSION]) {
            return Err("another version of forebay wrote it");
        }
        let proof = input.number().ok_or(DAMAGED)?;
        if proof != xxh3_64(&input.0) {
            return Err(DAMAGED);
        }
        let (blocks, known) = Self::content(input).ok_or(DAMAGED)?;
        Ok(Index { root, blocks, known, last: Mutex::default(), is_damaged: AtomicBool::new(false) })
    }

    fn content(mut input: IndexBytes) -> Option<(Vec<Block>, HashMap<u64, Found>)> {
        let count = input.number()?;
        let mut shapes = Vec::new();
        for _ in 0..count {
            let mut number = || usize::try_from(input.number()?).ok();
            shapes.push((number()?, number()?, number()?));
        }
        let mut known = HashMap::new();
        for (block, (footers, ..)) in shapes.iter().enumerate() {
            for footer in 0..*footers {
                known.insert(input.number()?, (u32::try_from(block).ok()?, u32::try_from(footer).ok()?));
            }
        }
        let mut blocks = Vec::with_capacity(shapes.len());
        for (footers, bytes, compressed) in shapes {
            blocks.push(Block { footers, bytes, compressed: input.take(compressed)? });
        }
        input.0.is_empty().then_some((blocks, known))
    }

    /// Whether the index has a footer for this version of the file.
    pub(super) fn has(&self, whole: &str, pin: &Pin) -> bool {
        self.find(whole, pin).is_some()
    }

    /// The footer of the file; `None` if the file has changed since the index was written, or if the entry is
    /// damaged.
    pub(super) fn get(&self, whole: &str, pin: &Pin) -> Option<Bytes> {
        let (key, found) = self.find(whole, pin)?;
        let footer = self.footer(found).filter(|proven| proven.proof == proof(key, &proven.footer));
        if footer.is_none() {
            self.is_damaged.store(true, Relaxed);
        }
        footer.map(|proven| proven.footer)
    }

    /// The path of the index for a message, if a damaged entry was found; else `None`.
    pub(super) fn damage(&self) -> Option<String> {
        self.is_damaged.load(Relaxed).then(|| match &*self.root {
            "" => "the index that was handed on".to_owned(),
            root => format!("{root}/{NAME}"),
        })
    }

    fn footer(&self, (block, footer): Found) -> Option<Proven> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|(known, _)| *known != block) {
            *last = Some((block, self.blocks.get(block as usize)?.footers()?));
        }
        last.as_ref()?.1.get(footer as usize).cloned()
    }

    fn find(&self, whole: &str, pin: &Pin) -> Option<(u64, Found)> {
        let key = key(below(whole, &self.root)?, pin);
        Some((key, *self.known.get(&key)?))
    }
}

impl Block {
    fn compress(footers: &[Proven]) -> std::io::Result<Self> {
        let heads = footers.iter().flat_map(|Proven { footer, proof }| [footer.len() as u64, *proof]);
        let bytes = footers.iter().flat_map(|proven| proven.footer.iter().copied());
        let raw: Vec<u8> = heads.flat_map(u64::to_le_bytes).chain(bytes).collect();
        let compressed = zstd::bulk::compress(&raw, LEVEL)?.into();
        Ok(Block { footers: footers.len(), bytes: raw.len(), compressed })
    }

    fn footers(&self) -> Option<Vec<Proven>> {
        let head = self.footers.checked_mul(2 * size_of::<u64>())?;
        // A block may exceed `BLOCK_BYTES` by the length of one footer, because it is closed only after the
        // footer with which it reaches this size.
        if self.bytes > head.checked_add(LONGEST_FOOTER as usize + BLOCK_BYTES)? {
            return None;
        }
        let raw = zstd::bulk::decompress(&self.compressed, self.bytes).ok()?;
        let mut raw = IndexBytes(raw.into());
        let heads: Option<Vec<[u64; 2]>> =
            (0..self.footers).map(|_| Some([raw.number()?, raw.number()?])).collect();
        let footer = |[length, proof]: [u64; 2]| {
            Some(Proven { footer: raw.take(usize::try_from(length).ok()?)?, proof })
        };
        heads?.into_iter().map(footer).collect()
    }
}

/// An index that is being built.
#[derive(Default)]
struct Builder {
    keys: Vec<u64>,
    blocks: Vec<Block>,
    /// The footers of the next block, which are not compressed yet; `bytes` is the number of their bytes.
    waiting: Vec<Proven>,
    bytes: usize,
}

impl Builder {
    /// Adds the footer of the file whose path below the folder is `relative`.
    fn add(&mut self, relative: &str, pin: &Pin, footer: Bytes) -> std::io::Result<()> {
        let key = key(relative, pin);
        self.keys.push(key);
        self.bytes += footer.len();
        self.waiting.push(Proven { proof: proof(key, &footer), footer });
        if self.bytes < BLOCK_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if !self.waiting.is_empty() {
            self.blocks.push(Block::compress(&self.waiting)?);
            self.waiting.clear();
            self.bytes = 0;
        }
        Ok(())
    }

    fn finish(mut self) -> std::io::Result<Vec<u8>> {
        self.flush()?;
        let mut bytes = [&MAGIC[..], &[VERSION], &[0; size_of::<u64>()]].concat();
        let start = bytes.len();
        let mut number = |number: u64| bytes.extend_from_slice(&number.to_le_bytes());
        number(self.blocks.len() as u64);
        for Block { footers, bytes, compressed } in &self.blocks {
            [*footers, *bytes, compressed.len()].into_iter().for_each(|it| number(it as u64));
        }
        self.keys.into_iter().for_each(number);
        self.blocks.iter().for_each(|block| bytes.extend_from_slice(&block.compressed));
        let proof = xxh3_64(&bytes[start..]);
        bytes[start - size_of::<u64>()..start].copy_from_slice(&proof.to_le_bytes());
        Ok(bytes)
    }
}

/// Bytes that are read from the front.
struct IndexBytes(Bytes);

impl IndexBytes {
    fn take(&mut self, length: usize) -> Option<Bytes> {
        (length <= self.0.len()).then(|| self.0.split_to(length))
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(size_of::<u64>())?.as_ref().try_into().ok()?))
    }
}

/// The key of a footer: a hash of its file's path below the folder, and of the file's size and version.
fn key(relative: &str, pin: &Pin) -> u64 {
    xxh3_64(format!("{relative}\0{}\0{}", pin.size, pin.version.for_keys()).as_bytes())
}

/// The checksum of a footer. It depends on the key, too, so a footer with another file's key is refused.
fn proof(key: u64, footer: &[u8]) -> u64 {
    xxh3_64_with_seed(footer, key)
}

/// The path of a file below the folder `root`; `None` if the file is not in the folder.
fn below<'a>(whole: &'a str, root: &str) -> Option<&'a str> {
    let rest = whole.strip_prefix(root)?;
    if root.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::FileVersion;

    const ROOT: &str = "s3://acme/train";

    fn pin(name: &str, tag: &str) -> Pin {
        Pin { path: name.into(), size: 100, version: FileVersion::ETag(tag.into()) }
    }

    /// A footer of at least 40,000 bytes, so that the footers of a test fill several blocks.
    fn footer(at: usize) -> Bytes {
        format!("{at}:").repeat(20_000 + at).into()
    }

    fn written(count: usize) -> Vec<u8> {
        let mut builder = Builder::default();
        for at in 0..count {
            let name = format!("{at:02}.parquet");
            builder.add(&name, &pin(&name, "1"), footer(at)).unwrap();
        }
        builder.finish().unwrap()
    }

    fn get(index: &Index, at: usize, tag: &str) -> Option<Bytes> {
        let name = format!("{at:02}.parquet");
        index.get(&format!("{ROOT}/{name}"), &pin(&name, tag))
    }

    #[test]
    fn a_footer_is_known_until_its_file_is_written_again() {
        let index = Index::read(ROOT.into(), written(60).into()).unwrap();
        assert!(index.blocks.len() > 2, "{} blocks", index.blocks.len());
        for at in (0..60).chain([59, 0, 31]) {
            assert_eq!(get(&index, at, "1"), Some(footer(at)), "{at}");
            assert_eq!(get(&index, at, "2"), None, "{at}");
        }
        assert_eq!(get(&index, 60, "1"), None);
        let other = Index::read("s3://acme/tra".into(), written(60).into()).unwrap();
        assert_eq!(get(&other, 1, "1"), None, "of a folder whose name only begins alike");
    }

    #[test]
    fn an_index_of_no_file_is_read() {
        let index = Index::read(ROOT.into(), written(0).into()).unwrap();
        assert_eq!(get(&index, 0, "1"), None);
    }

    #[test]
    fn each_damage_is_seen() {
        let whole = written(3);
        assert!(Index::read(ROOT.into(), whole.clone().into()).is_ok());
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x10;
            assert!(Index::read(ROOT.into(), flipped.into()).is_err(), "byte {at}");
            assert!(Index::read(ROOT.into(), whole[..at].to_vec().into()).is_err(), "cut at {at}");
        }
        let longer = [&whole[..], &[0]].concat();
        assert_eq!(Index::read(ROOT.into(), longer.into()).err(), Some("it is damaged"));
    }

    #[test]
    fn what_is_none_says_why() {
        let why = |bytes: &[u8]| Index::read(ROOT.into(), bytes.to_vec().into()).err().unwrap();
        assert_eq!(why(b"PAR1"), "it is something else");
        assert_eq!(why(b""), "it is something else");
        assert_eq!(why(b"FBINDEX1 and more"), "another version of forebay wrote it");
        assert_eq!(why(b"FBINDEX2"), "it is damaged");
    }

    /// The checksum is computed anew for the wrong lengths, so only other checks can find them.
    #[test]
    fn lengths_that_are_not_there_are_refused() {
        let honest = written(3);
        for at in (16..16 + 32).step_by(8) {
            for lie in [0, 1, u64::from(u32::MAX), u64::MAX] {
                let mut bytes = honest.clone();
                bytes[at..at + 8].copy_from_slice(&lie.to_le_bytes());
                if bytes == honest {
                    continue;
                }
                let proof = xxh3_64(&bytes[16..]);
                bytes[8..16].copy_from_slice(&proof.to_le_bytes());
                if let Ok(index) = Index::read(ROOT.into(), bytes.into()) {
                    let found = (0..3).filter_map(|at| get(&index, at, "1")).count();
                    assert_eq!(found, 0, "byte {at} is {lie}");
                }
            }
        }
    }

    /// The checksum of the whole index is computed anew for the damaged entry, so only the entry's own
    /// checksum shows the damage.
    #[test]
    fn an_entry_that_is_damaged_is_not_used_and_is_reported() {
        let honest = written(3);
        let (mut unused, mut damaged) = (0, 0);
        for at in 16..honest.len() {
            let mut bytes = honest.clone();
            bytes[at] ^= 0x04;
            let whole = xxh3_64(&bytes[16..]);
            bytes[8..16].copy_from_slice(&whole.to_le_bytes());
            let Ok(index) = Index::read(ROOT.into(), bytes.into()) else { continue };
            for file in 0..3 {
                let found = get(&index, file, "1");
                assert!(found.is_none() || found == Some(footer(file)), "byte {at}, footer {file}");
                unused += usize::from(found.is_none());
            }
            if let Some(place) = index.damage() {
                assert_eq!(place, format!("{ROOT}/{NAME}"));
                damaged += 1;
            }
        }
        assert!(unused > 0 && damaged > 0, "{unused} not used, {damaged} reported");
        assert_eq!(Index::read(ROOT.into(), honest.into()).unwrap().damage(), None);
    }
}
