//! Packs the coefficients of a JPEG into a cell of a Parquet column, which then holds them instead of the
//! file.
//!
//! A packed cell is 16 bytes, followed by the coefficients in the format of
//! [`Form::Coefficients`](super::Form):
//!
//! | bytes | content |
//! |---|---|
//! | 8 | `F4 66 62 63 65 0D 0A 01`: the mark, of which the last byte is the version |
//! | 8 | xxh3-64 of all bytes that follow, little-endian |
//!
//! A cell in Parquet may pass through any program, so it has a checksum, which turns a damaged cell into a
//! bad row instead of wrong pixels. (A cache has checksums of its own.) The field of the column has the Arrow
//! extension type [`EXTENSION`], with the version in its metadata. Cells are recognised by their mark alone,
//! so a column may also hold files.

use forebay_base::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_64;

use super::jpeg;
use super::refuse::bad_row;
use super::scratch::Scratch;
use super::sniff::is_jpeg;
use super::spec::DEFAULT_MAX_PIXELS;
use super::workspace::Workspace;

/// The name of the Arrow extension type of a column whose cells hold coefficients.
pub const EXTENSION: &str = "forebay.jpeg_coefficients";
/// The version of the cells that are written, and the latest version that can be read.
pub const VERSION: u8 = 1;

/// The first bytes of a cell of any version. The version is the byte after them.
const MARK: [u8; 7] = *b"\xF4fbce\r\n";
const CHECKSUM: usize = size_of::<u64>();
const HEAD: usize = MARK.len() + size_of::<u8>() + CHECKSUM;

/// Whether a cell holds coefficients, of any version.
pub fn is_packed(cell: &[u8]) -> bool {
    cell.starts_with(&MARK)
}

/// Packs the coefficients of a JPEG into a cell. Returns `None` if the image must stay a file, because it is
/// not a JPEG, is damaged, too large, not in grey or in three colours, or of an unsupported kind.
///
/// ```
/// use forebay_image::{encode_jpeg, pack, unpack};
///
/// let file = encode_jpeg(&[90; 16 * 16 * 3], 16, 16, 90)?;
/// let cell = pack(&file).expect("a baseline JPEG");
/// assert_eq!(pack(&unpack(&cell)?).as_ref(), Some(&cell));
/// assert_eq!(pack(b"no image"), None);
/// # Ok::<(), forebay_image::Error>(())
/// ```
pub fn pack(encoded: &[u8]) -> Option<Vec<u8>> {
    if !is_jpeg(encoded) {
        return None;
    }
    let workspace = Workspace::of_one(DEFAULT_MAX_PIXELS);
    let packed = Scratch::with(workspace.own(), |Scratch { decoder, .. }| {
        decoder.pack(DEFAULT_MAX_PIXELS, encoded, &workspace)
    });
    packed.ok().flatten().map(framed)
}

/// Makes a baseline JPEG from a cell. Its coefficients, and so its pixels, equal those of the file that was
/// packed. Of the file's metadata, only the orientation and the segments that affect pixels are kept.
///
/// # Errors
/// [`ErrorKind::BadRow`] for a cell that is damaged or of a later version, and for other bytes.
pub fn unpack(cell: &[u8]) -> Result<Vec<u8>> {
    if !is_packed(cell) {
        return Err(bad_row("not the coefficients of a JPEG"));
    }
    let packed = unframed(cell)?;
    let workspace = Workspace::of_one(DEFAULT_MAX_PIXELS);
    Scratch::with(workspace.own(), |Scratch { decoder, .. }| {
        decoder.unpack(DEFAULT_MAX_PIXELS, packed, &workspace)
    })
}

/// The bytes of a cell after its checksum; any other bytes are returned unchanged.
///
/// # Errors
/// Fails if the cell is damaged, or of a later version.
pub(super) fn unframed(cell: &[u8]) -> Result<&[u8]> {
    let Some(rest) = cell.strip_prefix(&MARK) else { return Ok(cell) };
    let damaged = || bad_row("damaged coefficients of a JPEG: the checksum of the cell differs");
    let (version, rest) = rest.split_first().ok_or_else(damaged)?;
    if *version != VERSION {
        return Err(bad_row(newer(u64::from(*version)).to_string()));
    }
    let (checksum, packed) = rest.split_first_chunk::<CHECKSUM>().ok_or_else(damaged)?;
    if u64::from_le_bytes(*checksum) != xxh3_64(packed) || !jpeg::is_coefficients(packed) {
        return Err(damaged());
    }
    Ok(packed)
}

/// Like [`unframed`], but does not verify the checksum, for callers that only need the size of an image:
/// decoding it will verify the checksum.
pub(super) fn unchecked(cell: &[u8]) -> &[u8] {
    if is_packed(cell) { cell.get(HEAD..).unwrap_or_default() } else { cell }
}

/// The error for a cell of a later version, which this version of forebay cannot read.
pub fn newer(version: u64) -> Error {
    let cause = format!("coefficients of a JPEG of version {version}; this forebay reads version {VERSION}");
    Error::new(ErrorKind::Unsupported, cause)
        .hint("upgrade forebay, or unpack them with the one that wrote them")
}

fn framed(packed: Vec<u8>) -> Vec<u8> {
    let mut cell = Vec::with_capacity(HEAD + packed.len());
    cell.extend(MARK);
    cell.push(VERSION);
    cell.extend(xxh3_64(&packed).to_le_bytes());
    cell.extend(packed);
    cell
}

#[cfg(test)]
mod tests;
