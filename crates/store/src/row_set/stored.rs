//! Writes sets of rows as bytes, and reads them back.

use forebay_arrow::buffer::{BooleanBuffer, Buffer};

use super::{RowSet, SetForm};

const NONE: u8 = 0;
const ALL: u8 = 1;
/// Marks a set that is written as pairs of numbers: how many rows are not in the set, and how many following
/// rows are.
const RUNS: u8 = 2;
/// Marks a set that is written as one bit for each row. The first row is the lowest bit of the first byte.
const BITS: u8 = 3;

/// The largest number of bytes of a variable-length integer with 32 bits.
const MAX_VARINT_BYTES: u32 = 5;

impl RowSet {
    /// Appends the set to `bytes`, but not the number of rows of the row group, which [`read`](Self::read)
    /// must be given.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        match &self.0 {
            SetForm::None(_) => bytes.push(NONE),
            SetForm::All(_) => bytes.push(ALL),
            SetForm::Runs(..) => {
                bytes.push(RUNS);
                let runs: Vec<_> = self.runs(0..self.count()).collect();
                write(bytes, runs.len() as u32);
                let mut end = 0;
                for run in runs {
                    write(bytes, run.start - end);
                    write(bytes, run.end - run.start);
                    end = run.end;
                }
            }
            SetForm::Bitmap(..) => {
                bytes.push(BITS);
                let start = bytes.len();
                bytes.resize(start + self.rows().div_ceil(8) as usize, 0);
                for row in self.runs(0..self.count()).flatten() {
                    bytes[start + row as usize / 8] |= 1 << (row % 8);
                }
            }
        }
    }

    /// Reads the set of a row group of `rows` rows from the front of `bytes`, and moves `bytes` past it.
    /// Returns `None` if the bytes are not valid.
    pub(crate) fn read(bytes: &mut &[u8], rows: u32) -> Option<Self> {
        let (form, rest) = bytes.split_first()?;
        *bytes = rest;
        match *form {
            NONE => Some(RowSet::none(rows)),
            ALL => Some(RowSet::all(rows)),
            RUNS => {
                let count = read(bytes)?;
                let mut runs = Vec::new();
                let mut end = 0u32;
                for _ in 0..count {
                    let start = end.checked_add(read(bytes)?)?;
                    end = start.checked_add(read(bytes)?)?;
                    runs.push(start..end);
                }
                (end <= rows).then(|| RowSet::from_runs(rows, runs))
            }
            BITS => {
                let (bits, rest) = bytes.split_at_checked(rows.div_ceil(8) as usize)?;
                *bytes = rest;
                let bits = BooleanBuffer::new(Buffer::from(bits), 0, rows as usize);
                Some(RowSet::from_bits(&bits))
            }
            _ => None,
        }
    }
}

/// Writes a number with seven bits in each byte, lowest bits first. The eighth bit says that another byte
/// follows.
fn write(bytes: &mut Vec<u8>, mut value: u32) {
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn read(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0u64;
    for place in 0..MAX_VARINT_BYTES {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return u32::try_from(value).ok();
        }
    }
    None
}
