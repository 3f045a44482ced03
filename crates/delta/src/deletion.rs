//! Deletion vectors: which rows of a file are deleted.

use std::fmt;
use std::ops::Range;

use forebay_base::{Error, ErrorKind, Place, Result, roaring};

use crate::{path, z85};

/// A reference to the deletion vector of a file (the set of its deleted rows), as the log gives it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeletionVector {
    /// How the vector is stored: `u` in a file of the table, `i` inline in the log, `p` in a file with an
    /// absolute path.
    pub(crate) storage: String,
    /// The encoded name of the file, the encoded bytes or the absolute path, depending on `storage`.
    pub(crate) text: String,
    /// The offset of the vector in its file.
    pub(crate) offset: Option<u64>,
    /// The number of bytes of the vector.
    pub(crate) size: u64,
    /// The number of rows that the vector marks as deleted.
    pub(crate) count: u64,
}

/// The place where the bytes of a deletion vector are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VectorPlace {
    /// In the log, as these bytes.
    Inline(Vec<u8>),
    /// In a file of the table.
    File {
        /// The path of the file below the folder of the table.
        path: String,
        /// The byte range of the vector in the file, which includes the size before the vector and the
        /// checksum after it.
        range: Range<u64>,
    },
}

/// The deleted rows of a file, as ascending ranges.
pub type DeletedRows = Vec<Range<u64>>;

impl DeletionVector {
    /// The number of deleted rows.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Resolves the place of the vector's bytes, for a table in the folder `root`.
    ///
    /// # Errors
    /// `Corrupt` for an invalid place, `Unsupported` for a place outside the table.
    pub fn place(&self, root: &str) -> Result<VectorPlace> {
        let path = match self.storage.as_str() {
            "i" => {
                let bytes = z85::decoded(&self.text);
                let bytes = bytes.and_then(|bytes| {
                    let size = usize::try_from(self.size).ok()?;
                    Some(bytes.get(..size)?.to_vec())
                });
                return bytes
                    .map(VectorPlace::Inline)
                    .ok_or_else(|| malformed("its text does not decode to its bytes"));
            }
            "u" => self.file_name().ok_or_else(|| malformed("its file has no name"))?,
            "p" => path::below(&self.text, root)?,
            other => {
                let cause = format!("deletion vectors of storage type {other:?} are not read");
                return Err(Error::new(ErrorKind::Unsupported, cause));
            }
        };
        let start = self.offset.unwrap_or(0);
        let end = self.size.checked_add(8).and_then(|size| start.checked_add(size));
        let end = end.filter(|_| self.size <= i32::MAX as u64);
        let range = start..end.ok_or_else(|| malformed("it ends beyond any file"))?;
        Ok(VectorPlace::File { path, range })
    }

    /// Decodes the path of a vector's file below the table's folder. The text is an optional folder, and 20
    /// characters that encode the UUID in the file's name.
    fn file_name(&self) -> Option<String> {
        let (folder, number) = self.text.split_at_checked(self.text.len().checked_sub(20)?)?;
        let bytes: [u8; 16] = z85::decoded(number)?.try_into().ok()?;
        let is_plain = folder.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let uuid = [&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[8..10], &bytes[10..]].map(hex).join("-");
        let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        is_plain.then(|| format!("{folder}deletion_vector_{uuid}.bin"))
    }

    /// Reads the deleted rows from `bytes`, which are those in the log or the range of a file that
    /// [`place`](Self::place) returned.
    ///
    /// # Errors
    /// `Corrupt` for a wrong checksum, an invalid vector, or a number of rows that differs from the log's.
    pub fn rows(&self, bytes: &[u8]) -> Result<DeletedRows> {
        let data = match self.storage.as_str() {
            "i" => bytes,
            _ => roaring::unframed(bytes, self.size).map_err(|why| malformed(&why))?,
        };
        let rows = roaring::ranges(data).ok_or_else(|| malformed("it is malformed"))?;
        let count = rows.iter().map(|range| range.end - range.start).fold(0, u64::saturating_add);
        match count == self.count {
            true => Ok(rows),
            false => Err(malformed(&format!("it has {count} rows, the log says {}", self.count))),
        }
    }
}

impl fmt::Display for DeletionVector {
    /// Writes text that identifies the vector among all vectors of its table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeletionVector { storage, text, offset, .. } = self;
        match offset {
            Some(offset) => write!(f, "{storage}{text}@{offset}"),
            None => write!(f, "{storage}{text}"),
        }
    }
}

fn malformed(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the deletion vector cannot be read: {what}"))
        .at(Place::default())
        .hint("restore it, or open an older version with `version`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(storage: &str, text: &str, size: u64, count: u64) -> DeletionVector {
        DeletionVector { storage: storage.to_owned(), text: text.to_owned(), offset: Some(4), size, count }
    }

    /// A vector of six rows, as text in a log.
    const INLINE: &str = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L";

    /// The examples are those of Delta's protocol specification.
    #[test]
    fn vectors_are_in_the_log_or_in_files_of_the_table() {
        let of_table = vector("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 6).place("s3://acme/t").unwrap();
        let path = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin".to_owned();
        assert_eq!(of_table, VectorPlace::File { path: path.clone(), range: 4..52 });
        let absolute = format!("s3://acme/t/{path}");
        assert_eq!(vector("p", &absolute, 40, 6).place("s3://acme/t").unwrap(), of_table);
        let inline = vector("i", INLINE, 44, 6);
        let VectorPlace::Inline(bytes) = inline.place("s3://acme/t").unwrap() else { panic!("in a file") };
        assert_eq!(inline.rows(&bytes).unwrap(), [3..5, 7..8, 11..12, 18..19, 29..30]);
    }

    #[test]
    fn vectors_that_are_damaged_or_lead_elsewhere_are_refused() {
        let refused = |vector: &DeletionVector| vector.place("s3://acme/t").unwrap_err().to_string();
        for (of, why) in [
            (vector("p", "s3://other/t/x.bin", 40, 6), "leads out of the table"),
            (vector("u", "../ab^-aqEH.-t@S}K{vb[*k^", 40, 6), "its file has no name"),
            (vector("u", "short", 40, 6), "its file has no name"),
            (vector("i", "short~", 40, 6), "its text does not decode to its bytes"),
            (vector("u", "ab^-aqEH.-t@S}K{vb[*k^", u64::MAX, 6), "it ends beyond any file"),
            (vector("x", "", 40, 6), "of storage type \"x\" are not read"),
        ] {
            assert!(refused(&of).contains(why), "{}", refused(&of));
        }
        let inline = vector("i", INLINE, 44, 6);
        let VectorPlace::Inline(data) = inline.place("t").unwrap() else { panic!("in a file") };
        let stored = [&44u32.to_be_bytes()[..], &data, &crc32fast::hash(&data).to_be_bytes()].concat();
        let of_file = vector("u", "ab^-aqEH.-t@S}K{vb[*k^", 44, 6);
        assert_eq!(of_file.rows(&stored).unwrap(), inline.rows(&data).unwrap());
        let refused = |vector: &DeletionVector, bytes: &[u8]| vector.rows(bytes).unwrap_err().to_string();
        let mut flipped = stored.clone();
        flipped[20] ^= 1;
        assert!(refused(&of_file, &flipped).contains("its checksum is wrong"));
        assert!(refused(&of_file, &stored[..5]).contains("it ends early"));
        assert!(refused(&vector("u", "x", 45, 6), &stored).contains("it has 44 bytes, the table says 45"));
        assert!(refused(&vector("u", "x", 44, 7), &stored).contains("it has 6 rows, the log says 7"));
    }
}
