//! The memory into which the rows of a resized image are written.

#[cfg(target_arch = "x86_64")]
use std::ops::Range;

/// The number of result rows that are made at a time. They share the loading of weights.
pub(crate) const STRIP_ROWS: usize = 4;

/// The memory into which result rows are written, in order.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "the library needs the whole target"))]
pub(super) enum ResizeTarget<'a> {
    /// Memory for all rows.
    Whole(&'a mut [u8]),
    /// Memory for up to [`STRIP_ROWS`] rows, which is reused. `write` gets the rows and the index of the
    /// first one before the next rows are made.
    Strips { strip: &'a mut [u8], write: &'a mut dyn FnMut(usize, &[u8]) },
}

#[cfg(target_arch = "x86_64")]
impl ResizeTarget<'_> {
    /// The memory into which the rows `rows` are written. Each has `row` bytes.
    pub(super) fn rows(&mut self, rows: &Range<usize>, row: usize) -> Option<&mut [u8]> {
        match self {
            ResizeTarget::Whole(target) => target.get_mut(rows.start * row..rows.end * row),
            ResizeTarget::Strips { strip, .. } => strip.get_mut(..rows.len() * row),
        }
    }

    /// Passes finished rows to `write`, if the target is [`Strips`](ResizeTarget::Strips).
    pub(super) fn made(&mut self, rows: &Range<usize>, row: usize) {
        if let ResizeTarget::Strips { strip, write } = self {
            write(rows.start, &strip[..rows.len() * row]);
        }
    }
}
