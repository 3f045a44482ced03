//! numpy's `.npz` format: a zip archive of `.npy` files. Here it must have a single file, which is stored or
//! deflated.

use std::io::{self, Read};

use flate2::{Decompress, FlushDecompress, Status};
use forebay_base::{Error, ErrorKind, Result};

use super::npy;
use super::spec::Tensor;

/// The signature before the first file in an archive.
pub(super) const MAGIC: &[u8] = b"PK\x03\x04";

/// The signature of the record at the end of an archive.
const END: &[u8] = b"PK\x05\x06";
/// The number of bytes of the record at the end of an archive, without its comment.
const END_BYTES: usize = 22;

/// The signature of an entry in the directory at the end of an archive.
const ENTRY: &[u8] = b"PK\x01\x02";
/// The number of bytes of an entry without the file's name.
const ENTRY_BYTES: usize = 46;

/// The number of bytes of the header before each file's content, without the file's name.
const LOCAL_BYTES: usize = 30;

/// A size or offset with this value is not the real one, which is stored elsewhere because it takes more than
/// 32 bits. Such archives are refused.
const ELSEWHERE: u32 = u32::MAX;

/// Reads the only array of a `.npz` file into a slot.
pub(super) fn read(cell: &[u8], tensor: &Tensor, slot: &mut [u8]) -> Result<()> {
    unpacked(cell, |file| npy::read(file, tensor, slot))
}

/// Calls `read` with the only file of an archive, and checks that file's checksum.
pub(in crate::column) fn unpacked<T>(
    cell: &[u8],
    read: impl FnOnce(&mut Unpacked<'_>) -> Result<T>,
) -> Result<T> {
    let ArchivedFile { content, is_deflated, checksum, bytes } = packed(cell)?;
    let damaged = || bad("a .npz file whose checksum differs: it is damaged");
    if !is_deflated && crc32fast::hash(content) != checksum {
        return Err(damaged());
    }
    // A new decompressor is made for each cell. Keeping one per thread would need thread-local storage, which
    // is scarce because all libraries of a process share it.
    let mut file = match is_deflated {
        false => Unpacked::Stored(content),
        true => Unpacked::Deflated(Inflated {
            inflate: Decompress::new(false),
            content,
            left: bytes,
            checksum: crc32fast::Hasher::new(),
        }),
    };
    let made = read(&mut file)?;
    match file {
        Unpacked::Deflated(file) if file.checksum.clone().finalize() != checksum => Err(damaged()),
        _ => Ok(made),
    }
}

fn bad(cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadRow, cause.into())
}

/// A file in an archive, before it is unpacked.
struct ArchivedFile<'a> {
    content: &'a [u8],
    is_deflated: bool,
    /// The CRC-32 of the unpacked file.
    checksum: u32,
    /// The number of bytes of the unpacked file.
    bytes: usize,
}

/// The unpacked size of the only file in an archive, as the archive's directory gives it. No more than this
/// is unpacked, even if the file is longer.
pub(in crate::column) fn unpacked_bytes(archive: &[u8]) -> Result<usize> {
    packed(archive).map(|packed| packed.bytes)
}

/// Finds the only file of an archive, by the directory at its end.
fn packed(archive: &[u8]) -> Result<ArchivedFile<'_>> {
    const STORED: u16 = 0;
    const DEFLATED: u16 = 8;
    const ENCRYPTED: u16 = 1;
    let none = || bad("not a .npz file: it is no zip archive, or it was cut off");
    let end = archive.windows(END.len()).rposition(|bytes| bytes == END).ok_or_else(none)?;
    let end = archive.get(end..end + END_BYTES).ok_or_else(none)?;
    let (files, directory) = (u16_at(end, 10), u32_at(end, 16));
    if files != 1 {
        return Err(bad(format!("a .npz file of {files} arrays, where one is wanted")));
    }
    let from = |at: u32, bytes: usize| {
        let at = at as usize;
        archive.get(at..at.checked_add(bytes)?)
    };
    let entry = from(directory, ENTRY_BYTES).filter(|entry| entry.starts_with(ENTRY)).ok_or_else(none)?;
    let (flags, method, checksum) = (u16_at(entry, 8), u16_at(entry, 10), u32_at(entry, 16));
    let (packed, bytes, local) = (u32_at(entry, 20), u32_at(entry, 24), u32_at(entry, 42));
    if [packed, bytes, local].contains(&ELSEWHERE) {
        return Err(bad("a .npz file of more than 4 GiB"));
    }
    if flags & ENCRYPTED != 0 || ![STORED, DEFLATED].contains(&method) {
        return Err(bad(format!("a .npz file with zip method {method}, or encrypted, is not read")));
    }
    let header = from(local, LOCAL_BYTES).filter(|header| header.starts_with(MAGIC)).ok_or_else(none)?;
    let before = LOCAL_BYTES + usize::from(u16_at(header, 26)) + usize::from(u16_at(header, 28));
    let content = archive.get(local as usize + before..).and_then(|rest| rest.get(..packed as usize));
    let content = content.ok_or_else(none)?;
    Ok(ArchivedFile { content, is_deflated: method == DEFLATED, checksum, bytes: bytes as usize })
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The only file of an archive, as a reader.
pub(in crate::column) enum Unpacked<'a> {
    Stored(&'a [u8]),
    Deflated(Inflated<'a>),
}

impl Read for Unpacked<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Unpacked::Stored(content) => content.read(out),
            Unpacked::Deflated(file) => file.read(out),
        }
    }
}

/// A deflated file, which is decompressed while it is read.
pub(in crate::column) struct Inflated<'a> {
    inflate: Decompress,
    content: &'a [u8],
    /// The number of unpacked bytes that are still to be read, according to the archive.
    left: usize,
    checksum: crc32fast::Hasher,
}

impl Read for Inflated<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = out.len().min(self.left);
        let out = &mut out[..most];
        loop {
            let (taken, given) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self.inflate.decompress(self.content, out, FlushDecompress::None);
            let status =
                status.map_err(|error| io::Error::other(format!("a .npz file is damaged: {error}")))?;
            self.content = &self.content[(self.inflate.total_in() - taken) as usize..];
            let given = (self.inflate.total_out() - given) as usize;
            self.checksum.update(&out[..given]);
            self.left -= given;
            let is_stuck = self.content.is_empty() || status != Status::Ok;
            if given > 0 || out.is_empty() || is_stuck {
                return Ok(given);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;
    use forebay_arrow::datatypes::DataType;

    use super::*;

    const TEXT: &[u8] = b"{'descr': '|u1', 'fortran_order': False, 'shape': (300,), }\n";

    fn array() -> Vec<u8> {
        let values: Vec<u8> = (0..300).map(|at| (at / 7) as u8).collect();
        [npy::MAGIC, &[1, 0], &(TEXT.len() as u16).to_le_bytes(), TEXT, &values].concat()
    }

    /// An archive with `files` copies of one file.
    fn archive(file: &[u8], is_deflated: bool, files: u16) -> Vec<u8> {
        let mut content = file.to_vec();
        if is_deflated {
            let mut deflate = DeflateEncoder::new(Vec::new(), Compression::default());
            deflate.write_all(file).unwrap();
            content = deflate.finish().unwrap();
        }
        let method = if is_deflated { 8u16 } else { 0 };
        let (checksum, packed) = (crc32fast::hash(file).to_le_bytes(), (content.len() as u32).to_le_bytes());
        let sizes = [&checksum[..], &packed, &(file.len() as u32).to_le_bytes()].concat();
        let (version, zeros) = ([20, 0], [0; 32]);
        let common =
            [&version[..], &zeros[..2], &method.to_le_bytes(), &zeros[..4], &sizes, &[7, 0]].concat();
        let mut archive = [MAGIC, &common, &[4, 0], b"arr.npy", b"more", &content].concat();
        let directory = (archive.len() as u32).to_le_bytes();
        archive.extend([ENTRY, &version, &common, &zeros[..16], b"arr.npy"].concat());
        let count = files.to_le_bytes();
        archive.extend([END, &zeros[..4], &count, &count, &[53, 0, 0, 0], &directory, &[0, 0]].concat());
        archive
    }

    fn decoded(archive: &[u8]) -> std::result::Result<Vec<u8>, String> {
        let mut slot = vec![0xAA; 300];
        let tensor = Tensor::new(DataType::UInt8, [300]);
        read(archive, &tensor, &mut slot).map_err(|error| error.to_string())?;
        Ok(slot)
    }

    #[test]
    fn the_array_of_an_archive_is_read_stored_or_deflated() {
        let file = array();
        for is_deflated in [false, true, true] {
            assert_eq!(decoded(&archive(&file, is_deflated, 1)).unwrap(), file[file.len() - 300..]);
        }
    }

    #[test]
    fn no_more_is_unpacked_than_the_archive_says() {
        let file = array();
        let mut archive = archive(&file, true, 1);
        assert_eq!(unpacked_bytes(&archive).unwrap(), file.len());
        let entry = archive.windows(ENTRY.len()).position(|bytes| bytes == ENTRY).unwrap();
        archive[entry + 24..entry + 28].copy_from_slice(&(file.len() as u32 - 10).to_le_bytes());
        assert_eq!(unpacked_bytes(&archive).unwrap(), file.len() - 10);
        let error = decoded(&archive).unwrap_err();
        assert!(error.contains("290 bytes of values where uint8[300] takes 300"), "{error}");
    }

    #[test]
    fn an_archive_of_something_else_is_refused() {
        let file = array();
        let changed = |at: usize, is_deflated: bool| {
            let mut archive = archive(&file, is_deflated, 1);
            let at = if at < archive.len() { at } else { archive.len() - 1 };
            archive[at] ^= 0x55;
            archive
        };
        for (archive, said) in [
            (archive(&file, true, 2), "2 arrays"),
            (archive(&file, true, 0), "0 arrays"),
            (archive(&file[..200], true, 1), "where uint8[300] takes 300"),
            (archive(&[&file[..], &[0]].concat(), true, 1), "more than the 300 bytes"),
            (archive(b"text", false, 1), "not a .npy file"),
            (changed(200, false), "checksum"),
            (b"PK".to_vec(), "not a .npz file"),
            (file.clone(), "not a .npz file"),
        ] {
            let error = decoded(&archive).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    /// Each prefix of an archive is refused. A changed byte gives an error or the same values.
    #[test]
    fn a_damaged_archive_gives_no_other_values() {
        let file = array();
        for is_deflated in [false, true] {
            let whole = archive(&file, is_deflated, 1);
            for end in 0..whole.len() {
                assert!(decoded(&whole[..end]).is_err());
            }
            for at in 0..whole.len() {
                for bits in [1, 0x80, 0xFF] {
                    let mut archive = whole.clone();
                    archive[at] ^= bits;
                    assert!(
                        decoded(&archive).is_ok_and(|values| values == file[file.len() - 300..])
                            || decoded(&archive).is_err()
                    );
                }
            }
        }
    }
}
