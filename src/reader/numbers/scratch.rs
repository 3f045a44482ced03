//! Memory that a thread uses again for each column chunk that it decodes.

use std::cell::RefCell;

use parquet::basic::Compression;

/// The most bytes that a thread keeps for the next column chunk: `KEPT_PAGE` for a decompressed page, and
/// `KEPT_VALUES` each for a dictionary and for the values of a page.
const KEPT_PAGE: usize = 4 << 20;
const KEPT_VALUES: usize = 1 << 20;

/// Memory that a thread uses again for each column chunk that it decodes.
#[derive(Default)]
pub(in crate::reader) struct Scratch {
    pub(in crate::reader) inflater: Inflater,
    pub(super) one: Memory<u8>,
    pub(super) two: Memory<u16>,
    pub(super) four: Memory<u32>,
    pub(super) eight: Memory<u64>,
}

thread_local! {
    /// The value is boxed to take little thread-local memory: a Python wheel shares that memory with all
    /// other libraries of its process.
    static SCRATCH: RefCell<Box<Scratch>> = RefCell::default();
}

/// Decompresses pages into memory that it reuses.
#[derive(Default)]
pub(in crate::reader) struct Inflater {
    page: Vec<u8>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl Inflater {
    /// Decompresses a stream to exactly `length` bytes. If `length` is 0, the stream is not read.
    pub(in crate::reader) fn inflate(
        &mut self,
        codec: Compression,
        stream: &[u8],
        length: usize,
    ) -> Option<&[u8]> {
        if length == 0 {
            return Some(&[]);
        }
        let mut page = std::mem::take(&mut self.page);
        if page.len() < length {
            page.resize(length, 0);
        }
        let inflated = self.inflate_into(codec, stream, &mut page[..length]);
        self.page = page;
        inflated.map(|()| &self.page[..length])
    }

    /// Fills `page` exactly with the decompressed stream.
    pub(in crate::reader) fn inflate_into(
        &mut self,
        codec: Compression,
        stream: &[u8],
        page: &mut [u8],
    ) -> Option<()> {
        let length = page.len();
        if length == 0 {
            return Some(());
        }
        let given = match codec {
            Compression::SNAPPY => {
                // Decompression fails if the stream states a larger size.
                snap::raw::Decoder::new().decompress(stream, page).ok()?
            }
            Compression::ZSTD(_) => {
                if self.zstd.is_none() {
                    self.zstd = zstd::bulk::Decompressor::new().ok();
                }
                self.zstd.as_mut()?.decompress_to_buffer(stream, page).ok()?
            }
            Compression::LZ4_RAW => lz4_flex::block::decompress_into(stream, page).ok()?,
            _ => return None,
        };
        (given == length).then_some(())
    }

    /// Shrinks the memory to the size that suffices for most column chunks.
    pub(in crate::reader) fn trim(&mut self) {
        trim(&mut self.page, KEPT_PAGE);
    }
}

/// Memory for decoded values that are not in the array yet.
#[derive(Default)]
pub(in crate::reader) struct Memory<T> {
    pub(super) dictionary: Vec<T>,
    /// The stored values of a page with nulls, before they are moved apart to make room for the nulls.
    pub(super) dense: Vec<T>,
}

impl<T> Memory<T> {
    /// Shrinks the memory to the size that suffices for most column chunks.
    pub(super) fn trim(&mut self) {
        trim(&mut self.dictionary, KEPT_VALUES);
        trim(&mut self.dense, KEPT_VALUES);
    }
}

/// Lends the thread's memory to `work`.
pub(in crate::reader) fn with_scratch<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    SCRATCH.with_borrow_mut(|scratch| work(scratch))
}

/// Shrinks a buffer to at most this many bytes.
fn trim<T>(kept: &mut Vec<T>, bytes: usize) {
    kept.truncate(bytes / size_of::<T>());
    kept.shrink_to(bytes / size_of::<T>());
}
