//! Decompresses the blocks of an Avro file.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::DeflateDecoder;
use forebay_base::{Error, ErrorKind, Result};

/// How the blocks of a file are compressed.
#[derive(Clone, Copy, Debug)]
pub(super) enum BlockCodec {
    Null,
    Deflate,
    Snappy,
    Zstandard,
}

impl BlockCodec {
    /// The codec with this name in the header.
    pub(super) fn from_name(name: &[u8]) -> Result<Self> {
        match name {
            b"null" => Ok(BlockCodec::Null),
            b"deflate" => Ok(BlockCodec::Deflate),
            b"snappy" => Ok(BlockCodec::Snappy),
            b"zstandard" => Ok(BlockCodec::Zstandard),
            other => {
                let name = String::from_utf8_lossy(other);
                let cause = format!("the file is compressed with {name:?}, which is not read");
                Err(Error::new(ErrorKind::Unsupported, cause))
            }
        }
    }

    /// Decompresses a block. More than `most` decompressed bytes are an error; an uncompressed block is
    /// returned as it is.
    pub(super) fn decompressed<'a>(&self, data: &'a [u8], most: usize) -> Result<Cow<'a, [u8]>> {
        let failed = || Error::new(ErrorKind::Corrupt, "a block of the file cannot be decompressed");
        match self {
            BlockCodec::Null => Ok(Cow::Borrowed(data)),
            BlockCodec::Deflate => all(DeflateDecoder::new(data), most).map(Cow::Owned),
            BlockCodec::Zstandard => {
                let decoder = zstd::stream::read::Decoder::new(data).map_err(|_| failed())?;
                all(decoder, most).map(Cow::Owned)
            }
            BlockCodec::Snappy => {
                let (data, checksum) =
                    data.len().checked_sub(4).map(|end| data.split_at(end)).ok_or_else(failed)?;
                if snap::raw::decompress_len(data).map_err(|_| failed())? > most {
                    return Err(too_large(most));
                }
                let plain = snap::raw::Decoder::new().decompress_vec(data).map_err(|_| failed())?;
                match crc32fast::hash(&plain).to_be_bytes() == checksum {
                    true => Ok(Cow::Owned(plain)),
                    false => Err(Error::new(ErrorKind::Corrupt, "the checksum of a block is wrong")),
                }
            }
        }
    }
}

/// Reads all bytes of a decoder. More than `most` bytes are an error.
pub(crate) fn all(decoder: impl Read, most: usize) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    let read = decoder.take(most as u64 + 1).read_to_end(&mut plain);
    read.map_err(|_| Error::new(ErrorKind::Corrupt, "a block of the file cannot be decompressed"))?;
    match plain.len() > most {
        true => Err(too_large(most)),
        false => Ok(plain),
    }
}

fn too_large(most: usize) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the file has more than {most} bytes once it is decompressed"))
}
