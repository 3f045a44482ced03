//! Fetches the bytes of a footer, which is at the end of its file.

use std::ops::Range;

use bytes::Bytes;
use forebay_base::{Error, ErrorKind, Result};
use tokio::sync::SemaphorePermit;

use super::limits::{LONGEST_FOOTER, TAIL};
use super::structure::{encrypted_error, key_value};
use crate::snapshot::Pin;
use crate::source::other_formats::OtherFormat;
use crate::source::store::Store;

/// The hint for a file that is damaged, or is not Parquet.
pub(in crate::source) const IF_DAMAGED: &str = "write or copy the file again, or name the files without it";

/// The size of the end of every Parquet file: the length of the footer, and `PAR1`, four bytes each.
pub(super) const ENDING: u64 = 8;

const MAGIC: &[u8; 4] = b"PAR1";

const MAGIC_ENCRYPTED: &[u8; 4] = b"PARE";

/// If a file is not Parquet, the error message shows this many of its first bytes.
const BYTES_SHOWN: u64 = 8;

/// Fetches the bytes of a footer, without its length and `PAR1`. `tail` is the last part of the file if it
/// has been read already. A footer that is longer than this part comes with a permit, which limits the memory
/// of large footers.
pub(super) async fn fetch<'a>(
    store: &'a Store,
    volume: usize,
    pin: &Pin,
    tail: Option<Bytes>,
) -> Result<(Bytes, Option<SemaphorePermit<'a>>)> {
    let size = pin.size;
    let read = |range| read_one(store, volume, pin, range);
    let tail = match tail {
        Some(tail) => tail,
        None => read(size.saturating_sub(TAIL)..size).await?,
    };
    let tail_start = size - tail.len() as u64;
    let Some((before, ending)) = tail.split_last_chunk::<{ ENDING as usize }>() else {
        return Err(not_parquet(&tail, pin));
    };
    let [length @ .., a, b, c, d] = *ending;
    match &[a, b, c, d] {
        MAGIC => {}
        MAGIC_ENCRYPTED => return Err(encrypted_error()),
        _ => return Err(not_parquet(&read(0..size.min(BYTES_SHOWN)).await?, pin)),
    }
    let length = u64::from(u32::from_le_bytes(length));
    let end = size - ENDING;
    let Some(start) = end.checked_sub(length).filter(|&start| start >= MAGIC.len() as u64) else {
        let cause = format!("the footer's length is given as {length} bytes, in a file of {size}");
        return Err(Error::new(ErrorKind::Corrupt, cause));
    };
    if length > LONGEST_FOOTER {
        let cause = format!("the footer is {length} bytes long; up to {LONGEST_FOOTER} are read");
        let error = Error::new(ErrorKind::TooLarge, cause);
        return Err(error.hint("rewrite the file with fewer columns or larger row groups"));
    }
    if start < tail_start {
        // The cast cannot truncate, because `length` is at most `LONGEST_FOOTER`, which fits into 32 bits.
        let permit = store.footer_turns.large.acquire_many(length as u32).await;
        let permit = permit.map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
        return Ok((read(start..end).await?, Some(permit)));
    }
    // The part that has been read contains the whole footer.
    Ok((tail.slice((start - tail_start) as usize..before.len()), None))
}

/// Reads the value of `key` from the key-value metadata in the footer of a file.
pub(in crate::source) async fn fetch_value(
    store: &Store,
    volume: usize,
    pin: &Pin,
    key: &str,
) -> Result<Option<Bytes>> {
    let (footer, _permit) = fetch(store, volume, pin, None).await?;
    // The value is copied, so that the rest of the footer is freed.
    Ok(key_value(&footer, key)?.map(Bytes::copy_from_slice))
}

async fn read_one(store: &Store, volume: usize, pin: &Pin, range: Range<u64>) -> Result<Bytes> {
    let mut read = store.read(volume, pin, &[range]).await?;
    read.pop().ok_or_else(|| Error::new(ErrorKind::Internal, "a read returned nothing"))
}

/// The error for a file that is not Parquet. `head` has its first bytes; a hint says how to convert a format
/// that is recognised.
fn not_parquet(head: &[u8], pin: &Pin) -> Error {
    if head.starts_with(MAGIC) {
        return Error::new(
            ErrorKind::Corrupt,
            "the file is truncated: it begins as Parquet, but has no footer",
        );
    }
    let shown: String =
        head.iter().flat_map(|&byte| std::ascii::escape_default(byte)).map(char::from).collect();
    let error = Error::new(ErrorKind::Corrupt, format!("not a Parquet file: starts with \"{shown}\""));
    match OtherFormat::of_file(head, pin.path.filename().unwrap_or_default()) {
        Some(format) => error.hint(format.hint()),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_parquet_says_how_it_starts() {
        let said = |head: &[u8], name: &str| {
            let version = crate::snapshot::FileVersion::Modified(0);
            not_parquet(head, &Pin { path: name.into(), size: 8, version }).to_string()
        };
        assert_eq!(said(b"hello\n", "a.parquet"), "not a Parquet file: starts with \"hello\\n\"");
        assert!(said(b"PAR1abcd", "a.parquet").contains("truncated"));
        let csv = said(b"a,b\n1,2\n", "a.csv");
        assert!(
            csv.starts_with("not a Parquet file: starts with \"a,b\\n1,2\\n\" (CSV is not read: "),
            "{csv}"
        );
    }
}
