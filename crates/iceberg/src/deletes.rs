//! Reads deletion vectors (sets of deleted rows), and names the columns of files that delete rows by
//! position.

use std::ops::Range;

use forebay_base::{Error, ErrorKind, Result, roaring};

/// The names and field ids of the columns of a file that deletes rows by position. The columns hold the
/// location of a data file and the position of a row in it.
pub const POSITION_COLUMNS: [(&str, i32); 2] = [("file_path", 2_147_483_546), ("pos", 2_147_483_545)];

/// The number of bytes that frame a vector in its file: its size before it, and its checksum after it.
const FRAME: u64 = 8;

/// The most bytes of a vector and its frame that are accepted, because the length in a manifest is not
/// trusted.
const LONGEST: u64 = i32::MAX as u64;

/// A reference to the deletion vector (set of deleted rows) of a data file, which is stored in another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletionVector {
    /// The location of the file that stores the vector.
    pub location: Box<str>,
    /// The size of the file that stores the vector.
    pub size: u64,
    /// The first byte of the vector in that file.
    pub(crate) offset: u64,
    /// The length of the vector in bytes, with its frame (size and checksum).
    pub(crate) length: u64,
    /// The number of rows that the vector marks as deleted.
    pub(crate) count: u64,
}

impl DeletionVector {
    /// The byte range of the vector in its file.
    ///
    /// # Errors
    /// `Corrupt` for a range that is not within the file.
    pub fn range(&self) -> Result<Range<u64>> {
        let end = self.offset.checked_add(self.length).filter(|end| *end <= self.size);
        match end.filter(|_| (FRAME + 1..=LONGEST).contains(&self.length)) {
            Some(end) => Ok(self.offset..end),
            None => Err(malformed("it is not within its file")),
        }
    }

    /// The deleted rows that the vector's bytes hold, as ascending ranges.
    ///
    /// # Errors
    /// `Corrupt` for a wrong checksum, a malformed vector, or another number of rows than the manifest says.
    pub fn rows(&self, bytes: &[u8]) -> Result<Vec<Range<u64>>> {
        let data = roaring::unframed(bytes, self.length - FRAME).map_err(|why| malformed(&why))?;
        let rows = roaring::ranges(data).ok_or_else(|| malformed("it is malformed"))?;
        let count = rows.iter().map(|range| range.end - range.start).fold(0, u64::saturating_add);
        match count == self.count {
            true => Ok(rows),
            false => Err(malformed(&format!("it has {count} rows, the manifest says {}", self.count))),
        }
    }
}

fn malformed(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the deletion vector cannot be read: {what}"))
        .hint("restore it, or open an older snapshot with `version`")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A vector with the rows 3 and 4, in its frame.
    fn framed() -> Vec<u8> {
        let mut data = 1_681_511_377u32.to_le_bytes().to_vec();
        data.extend(1u64.to_le_bytes());
        data.extend([0u32, 12_346, 1].map(u32::to_le_bytes).concat());
        data.extend([0u16, 1].map(u16::to_le_bytes).concat());
        data.extend(16u32.to_le_bytes());
        data.extend([3u16, 4].map(u16::to_le_bytes).concat());
        [&(data.len() as u32).to_be_bytes()[..], &data, &crc32fast::hash(&data).to_be_bytes()].concat()
    }

    fn vector(length: u64, count: u64) -> DeletionVector {
        DeletionVector { location: "a.puffin".into(), size: 4 + length, offset: 4, length, count }
    }

    #[test]
    fn a_vector_is_read_by_its_place_and_checked() {
        let bytes = framed();
        let length = bytes.len() as u64;
        assert_eq!(vector(length, 2).range().unwrap(), 4..4 + length);
        assert_eq!(vector(length, 2).rows(&bytes).unwrap(), vec![3..5]);
        let refused = |vector: DeletionVector, bytes: &[u8]| vector.rows(bytes).unwrap_err().to_string();
        assert!(refused(vector(length, 3), &bytes).contains("2 rows, the manifest says 3"));
        let mut flipped = bytes.clone();
        flipped[20] ^= 1;
        assert!(refused(vector(length, 2), &flipped).contains("checksum is wrong"));
        assert!(refused(vector(length, 2), &bytes[..6]).contains("ends early"));
        let beyond = DeletionVector { size: 10, ..vector(length, 2) };
        assert!(beyond.range().unwrap_err().to_string().contains("not within its file"));
        let endless = DeletionVector { offset: u64::MAX, ..vector(length, 2) };
        assert!(endless.range().is_err() && vector(8, 0).range().is_err());
    }
}
