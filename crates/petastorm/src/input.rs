//! Reads the bytes of a pickle in order.

use forebay_base::Result;

use crate::fail::damaged;

/// The bytes of a pickle, and the number of bytes that were read.
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Input { bytes, at: 0 }
    }

    /// How many bytes were read.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// How many bytes are left.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Reads the next byte.
    pub(crate) fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads the next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64)?);
        Ok(array)
    }

    /// Reads an unsigned number of `N` bytes, lowest byte first.
    pub(crate) fn number<const N: usize>(&mut self) -> Result<u64> {
        Ok(self.array::<N>()?.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    /// Reads the next `length` bytes.
    pub(crate) fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let taken = usize::try_from(length).ok().and_then(|length| self.bytes[self.at..].get(..length));
        let taken = taken.ok_or_else(|| {
            damaged(self.at, format!("{length} bytes are announced, and {} follow", self.left()))
        })?;
        self.at += taken.len();
        Ok(taken)
    }

    /// Reads the next line, and returns it without its line end.
    pub(crate) fn line(&mut self) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| *byte == b'\n');
        let length = length.ok_or_else(|| damaged(self.at, "a line has no end"))?;
        self.at += length + 1;
        Ok(&rest[..length])
    }
}
