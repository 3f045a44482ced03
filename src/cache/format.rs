//! One entry as bytes: an Arrow IPC stream of one batch, followed by a trailer that proves that the entry is
//! whole.
//!
//! ```text
//! 0        schema message, batch message, end of stream      buffers at multiples of 64 bytes, uncompressed;
//!                                                            the numbers of values are further columns
//! stream   text of the key
//! -40      magic "fbrows1\n" | rows u64 | stream bytes u64 | key bytes u64 | xxh3-64 of all before it
//! ```
//!
//! Why Arrow IPC: it is the memory layout itself, so a mapped entry is a batch without any copy. It has every
//! type that the reader delivers, and other programs can read it: `pyarrow.ipc.open_stream` reads an entry
//! and stops before the key. The trailer is at the end because a torn or truncated file then lacks it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use forebay_arrow::buffer::Buffer;
use forebay_arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};
use forebay_arrow::error::ArrowError;
use forebay_arrow::ipc::reader::StreamDecoder;
use forebay_arrow::ipc::writer::StreamEncoder;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::key::Key;
use super::numbers::{with_numbers, without_numbers};
use crate::batch::{ValueNumbers, exchange_views};

const MAGIC: &[u8; 8] = b"fbrows1\n";
const TRAILER_BYTES: usize = 40;
const HASH_BYTES: usize = 8;
/// How many bytes of an entry are read at a time to check it; they fit the second-level cache.
const CHECKED_BYTES: usize = 256 << 10;
/// How many bytes of small buffers, such as those of a table of many columns, are collected before they are
/// written.
const BUFFERED_BYTES: usize = 256 << 10;
/// How many bytes are written before the caller is asked again, by `goes_on`, whether to continue. A slow
/// disk takes some tenths of a second for them.
const ASK_AFTER_BYTES: usize = 1 << 20;

/// An entry that is ready to be written. It shares its buffers with the rows.
pub(super) struct Encoded {
    /// The buffers of the Arrow IPC stream.
    buffers: Vec<Buffer>,
    /// The bytes after the stream, without the hash.
    tail: Vec<u8>,
    /// The length of the file.
    pub(super) bytes: u64,
}

impl Encoded {
    pub(super) fn new(key: &Key, rows: &RecordBatch, numbers: &ValueNumbers) -> Result<Encoded, ArrowError> {
        let rows = with_numbers(compact(rows)?, numbers)?;
        let mut encoder = StreamEncoder::try_new(&rows.schema())?;
        let mut buffers = encoder.encode(&rows)?;
        buffers.extend(encoder.finish()?);
        let stream: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();

        let mut tail = key.text().as_bytes().to_vec();
        tail.extend_from_slice(MAGIC);
        for number in [rows.num_rows() as u64, stream, key.text().len() as u64] {
            tail.extend_from_slice(&number.to_le_bytes());
        }
        let bytes = stream + (tail.len() + HASH_BYTES) as u64;
        Ok(Encoded { buffers, tail, bytes })
    }

    /// Writes the whole entry, or stops and returns `false` when `goes_on` returns false. Calls `half_way`
    /// once, between two buffers.
    ///
    /// Bytes are hashed right before they are written, so that the write finds them in a cache of the
    /// processor.
    pub(super) fn write(
        &self,
        file: &File,
        goes_on: &dyn Fn() -> bool,
        half_way: impl FnOnce(),
    ) -> io::Result<bool> {
        let mut out = io::BufWriter::with_capacity(BUFFERED_BYTES, file);
        let mut hash = Xxh3::new();
        let mut write = |buffers: &[Buffer]| -> io::Result<bool> {
            for piece in buffers.iter().flat_map(|buffer| buffer.chunks(ASK_AFTER_BYTES)) {
                if !goes_on() {
                    return Ok(false);
                }
                for part in piece.chunks(BUFFERED_BYTES) {
                    hash.update(part);
                    out.write_all(part)?;
                }
            }
            out.flush()?;
            Ok(true)
        };
        let (first, second) = self.buffers.split_at(self.buffers.len() / 2);
        if !write(first)? {
            return Ok(false);
        }
        half_way();
        if !write(second)? {
            return Ok(false);
        }
        hash.update(&self.tail);
        out.write_all(&self.tail)?;
        out.write_all(&hash.digest().to_le_bytes())?;
        out.flush()?;
        Ok(true)
    }
}

/// Views are written together with unused bytes if these are at most the used bytes divided by this number.
/// In pages of Parquet a length precedes each value, and removing these lengths would cost a copy of all
/// values.
const MAX_UNUSED_DIVISOR: usize = 16;

/// Removes bytes that no view (Arrow's form of texts and bytes) uses. A view may point into a whole Parquet
/// page of which the batch has only a few values.
fn compact(rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns = rows.columns().iter().map(compact_array).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(rows.schema(), columns, &options)
}

fn compact_array(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    fn used<T: ByteViewType>(array: &ArrayRef) -> ArrayRef {
        let views = array.as_byte_view::<T>();
        let held: usize = views.data_buffers().iter().map(Buffer::len).sum();
        let used = views.total_buffer_bytes_used();
        // `used` counts bytes that several values share several times. If it exceeds `held`, `gc` would need
        // more space, because it stores each value separately.
        if held > used + used / MAX_UNUSED_DIVISOR { Arc::new(views.gc()) } else { array.clone() }
    }
    exchange_views(array, &|views| match views.data_type() {
        DataType::BinaryView => used::<BinaryViewType>(views),
        _ => used::<StringViewType>(views),
    })
}

/// The result of checking a file.
pub(super) enum Integrity {
    /// The file is a whole entry with the right key.
    Sound(Body),
    /// The file is anything else.
    Damaged,
}

/// The part of an entry that holds rows.
#[derive(Clone, Copy)]
pub(super) struct Body {
    /// The number of rows.
    pub(super) rows: u64,
    /// The length of the stream, which is at the beginning of the file.
    pub(super) stream: usize,
    /// The length of the file.
    pub(super) bytes: u64,
}

/// Reads all of `file` and says whether it is a whole entry with a key for which `belongs` is true. Fails
/// only if reading fails.
pub(super) fn check(file: &File, belongs: impl FnOnce(&[u8]) -> bool) -> io::Result<Integrity> {
    let length = file.metadata()?.len();
    let Some(before_trailer) = length.checked_sub(TRAILER_BYTES as u64) else {
        return Ok(Integrity::Damaged);
    };
    let mut trailer = [0u8; TRAILER_BYTES];
    file.read_exact_at(&mut trailer, before_trailer)?;
    let Some(Trailer { body, key, expected }) = Trailer::read(&trailer, length) else {
        return Ok(Integrity::Damaged);
    };
    let mut hash = Xxh3::new();
    let mut chunk = vec![0u8; CHECKED_BYTES];
    let hashed = length - HASH_BYTES as u64;
    let mut at = 0;
    while at < hashed {
        let wanted = (hashed - at).min(CHECKED_BYTES as u64) as usize;
        file.read_exact_at(&mut chunk[..wanted], at)?;
        hash.update(&chunk[..wanted]);
        at += wanted as u64;
    }
    if hash.digest() != expected {
        return Ok(Integrity::Damaged);
    }
    // The hash has shown that the lengths are right. The key is compared because a whole entry may have been
    // moved to the name of another one.
    let mut text = vec![0u8; key];
    file.read_exact_at(&mut text, body.stream as u64)?;
    Ok(if belongs(&text) { Integrity::Sound(body) } else { Integrity::Damaged })
}

/// Whether `file` ends with a trailer that fits the file's length. Only then is it worth reading into memory.
pub(super) fn may_be_whole(file: &File) -> io::Result<bool> {
    let length = file.metadata()?.len();
    let Some(before_trailer) = length.checked_sub(TRAILER_BYTES as u64) else { return Ok(false) };
    let mut trailer = [0u8; TRAILER_BYTES];
    file.read_exact_at(&mut trailer, before_trailer)?;
    Ok(Trailer::read(&trailer, length).is_some())
}

/// Checks an entry that was read into memory, like [`check`].
pub(super) fn check_bytes(bytes: &[u8], belongs: impl FnOnce(&[u8]) -> bool) -> Integrity {
    let Some((_, trailer)) = bytes.split_last_chunk::<TRAILER_BYTES>() else { return Integrity::Damaged };
    let Some(Trailer { body, key, expected }) = Trailer::read(trailer, bytes.len() as u64) else {
        return Integrity::Damaged;
    };
    let is_sound = xxh3_64(&bytes[..bytes.len() - HASH_BYTES]) == expected
        && belongs(&bytes[body.stream..body.stream + key]);
    if is_sound { Integrity::Sound(body) } else { Integrity::Damaged }
}

/// The trailer of an entry.
struct Trailer {
    body: Body,
    /// The length of the key.
    key: usize,
    /// The hash of all bytes before it.
    expected: u64,
}

impl Trailer {
    /// Parses the trailer of a file of `length` bytes. `None` if the magic bytes are wrong, or if the lengths
    /// in the trailer do not add up to `length`.
    fn read(trailer: &[u8; TRAILER_BYTES], length: u64) -> Option<Trailer> {
        let number =
            |at: usize| trailer[at..at + 8].iter().rev().fold(0u64, |n, byte| n << 8 | u64::from(*byte));
        let (rows, stream, key) = (number(8), number(16), number(24));
        let is_whole = trailer[..8] == MAGIC[..] && stream.checked_add(key)? == length - TRAILER_BYTES as u64;
        let (stream, key) = (usize::try_from(stream).ok()?, usize::try_from(key).ok()?);
        let body = Body { rows, stream, bytes: length };
        is_whole.then_some(Trailer { body, key, expected: number(TRAILER_BYTES - HASH_BYTES) })
    }
}

/// The offset of the batch's buffers in an entry; the bytes before it say how the buffers are read. `None` if
/// the stream of `length` bytes cannot be part of an entry.
pub(super) fn head(file: &File, length: usize) -> io::Result<Option<usize>> {
    /// The schema message, which has no buffers, and the batch message.
    const MESSAGES: usize = 2;
    let mut at = 0;
    for _ in 0..MESSAGES {
        let mut prefix = [0u8; 8];
        if at + prefix.len() > length {
            return Ok(None);
        }
        file.read_exact_at(&mut prefix, at as u64)?;
        let ([marker, size], _) = prefix.as_chunks::<4>() else { return Ok(None) };
        if u32::from_le_bytes(*marker) != u32::MAX {
            return Ok(None);
        }
        at += prefix.len() + u32::from_le_bytes(*size) as usize;
    }
    Ok((at < length).then_some(at))
}

/// Decodes the rows of a checked stream that is cut into pieces, and the numbers of their values. The rows
/// point into the last piece.
pub(super) fn decode(
    pieces: impl IntoIterator<Item = Buffer>,
    rows: u64,
) -> Result<(RecordBatch, ValueNumbers), ArrowError> {
    let mut decoder = StreamDecoder::new();
    for mut piece in pieces {
        if let Some(batch) = decoder.decode(&mut piece)? {
            return Some(batch)
                .filter(|batch| batch.num_rows() as u64 == rows)
                .ok_or_else(|| ArrowError::IpcError(format!("the stream does not hold {rows} rows")))
                .and_then(without_numbers);
        }
    }
    Err(ArrowError::IpcError("the stream holds no rows".into()))
}
