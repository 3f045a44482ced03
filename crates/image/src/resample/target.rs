//! Where the rows of a resized image go.

#[cfg(target_arch = "x86_64")]
use std::ops::Range;

/// The number of rows that are made at a time, for which lanes are loaded once.
pub(crate) const STRIP_ROWS: usize = 4;

/// The memory in which rows are made, from the first one on.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "the library needs the whole target"))]
pub(super) enum ResizeTarget<'a> {
    /// Memory for all rows, which stay in it.
    Whole(&'a mut [u8]),
    /// Memory for up to [`STRIP_ROWS`] rows. `write` takes the rows, with the number of the first one, before
    /// the next rows are made in the same memory.
    Strips { strip: &'a mut [u8], write: &'a mut dyn FnMut(usize, &[u8]) },
}

#[cfg(target_arch = "x86_64")]
impl ResizeTarget<'_> {
    /// The memory for some rows of `row` bytes.
    pub(super) fn rows(&mut self, rows: &Range<usize>, row: usize) -> Option<&mut [u8]> {
        match self {
            ResizeTarget::Whole(target) => target.get_mut(rows.start * row..rows.end * row),
            ResizeTarget::Strips { strip, .. } => strip.get_mut(..rows.len() * row),
        }
    }

    /// Hands on rows that were made.
    pub(super) fn made(&mut self, rows: &Range<usize>, row: usize) {
        if let ResizeTarget::Strips { strip, write } = self {
            write(rows.start, &strip[..rows.len() * row]);
        }
    }
}
