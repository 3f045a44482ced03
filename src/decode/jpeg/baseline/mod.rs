//! The fast path for baseline JPEG: libjpeg-turbo with our own Huffman decoder in place of the library's.
//!
//! Huffman decoding is most of the work of a JPEG, and half of it can be saved (docs/entropy.md). The library does the
//! rest, from the coefficients to the pixels. A file that is not a sound baseline JPEG is declined, and decoded by the
//! library alone, which reports what is wrong: so pixels and errors are the same either way.

mod bits;
mod library;
mod mcus;
mod tables;
#[cfg(test)]
mod tests;

use super::ffi::Region;
use bits::BitBuffer;
use library::Library;
use mcus::{Mcus, Tables};
use tables::{AcTable, DcTable, Known};

/// A JPEG, and how to decode it.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) encoded: &'a [u8],
    /// Most bytes that the library may take.
    pub(super) memory: usize,
    /// 1, 2, 4 or 8.
    pub(super) reduction: u32,
    /// 1: luma, 3: RGB.
    pub(super) colours: usize,
}

/// One thread's library, tables and window.
#[derive(Default)]
pub(super) struct Baseline {
    library: Option<Library>,
    dc: Known<DcTable>,
    ac: Known<AcTable>,
    window: BitBuffer,
}

impl Baseline {
    /// Decodes a region of a reduced image, or all of it, into `out`, which is exactly as long. Returns whether it did;
    /// if not, the content of `out` is unspecified.
    pub(super) fn decode(&mut self, request: Request<'_>, region: Option<Region>, out: &mut [u8]) -> bool {
        if self.library.is_none() {
            self.library = Library::new();
        }
        let Baseline { library, dc, ac, window } = self;
        let Some(scan) = library.as_mut().and_then(|library| library.start(request)) else { return false };
        let (blocks, in_mcu) = scan.blocks();
        let Some(tables) = Tables::of(&scan, dc, ac) else { return false };
        let Some(mut mcus) = Mcus::new(&scan, &blocks[..in_mcu], &tables, window) else { return false };
        scan.read(region, |blocks| mcus.next(blocks), out) && mcus.sound()
    }
}
