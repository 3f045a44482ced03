//! The fast path for JPEG: libjpeg-turbo with our own Huffman decoder in place of the library's.
//!
//! Huffman decoding is most of the work of a JPEG, and half of it can be saved (docs/entropy.md). The library does the
//! rest, from the coefficients to the pixels. A file that is not a sound baseline or progressive JPEG is declined, and
//! decoded by the library alone, which reports what is wrong: so pixels and errors are the same either way.
//!
//! Of a baseline JPEG, coefficients go to the library as they are decoded ([`sequential`]). Those of a progressive one are
//! collected first, in [`planes`].

mod bits;
mod frame;
mod library;
mod planes;
mod progressive;
mod sequential;
mod tables;
#[cfg(test)]
mod tests;

use super::ffi::Region;
use bits::BitBuffer;
use library::Library;
use planes::{Planes, PlanesMcus};
use progressive::Progressive;
use sequential::{Mcus, Tables};
use tables::{AcTable, DcTable, Known};

/// A JPEG, and how to decode it.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) encoded: &'a [u8],
    /// Most bytes that the library may take, or the coefficients of several scans.
    pub(super) memory: usize,
    /// 1, 2, 4 or 8.
    pub(super) reduction: u32,
    /// 1: luma, 3: RGB.
    pub(super) colours: usize,
}

/// One thread's library, tables and buffers.
#[derive(Default)]
pub(super) struct EntropyDecoder {
    library: Option<Library>,
    dc: Known<DcTable>,
    ac: Known<AcTable>,
    window: BitBuffer,
    progressive: Progressive,
    planes: Planes,
}

impl EntropyDecoder {
    /// Decodes a region of a reduced image, or all of it, into `out`, which is exactly as long. Returns whether it did;
    /// if not, the content of `out` is unspecified.
    pub(super) fn baseline(&mut self, request: Request<'_>, region: Option<Region>, out: &mut [u8]) -> bool {
        let EntropyDecoder { library, dc, ac, window, .. } = self;
        let Some(scan) = ready(library).and_then(|library| library.start(request)) else { return false };
        let (blocks, in_mcu) = scan.blocks();
        let Some(tables) = Tables::of(&scan, dc, ac) else { return false };
        let Some(mut mcus) = Mcus::new(&scan, &blocks[..in_mcu], &tables, window) else { return false };
        scan.read(region, |blocks| mcus.next(blocks), out) && mcus.sound()
    }

    /// The same for a progressive JPEG of at most so many scans.
    pub(super) fn progressive(
        &mut self,
        request: Request<'_>,
        most_scans: usize,
        region: Option<Region>,
        out: &mut [u8],
    ) -> bool {
        let EntropyDecoder { library, window, progressive, planes, .. } = self;
        let limits = (request.memory, most_scans);
        let decoded = progressive.decode(request.encoded, limits, window, planes);
        let Some((header, _)) = decoded else { return false };
        let request = Request { encoded: &header, ..request };
        let Some(scan) = ready(library).and_then(|library| library.start(request)) else { return false };
        let mut mcus = PlanesMcus::new(planes);
        scan.read(region, |blocks| mcus.next(blocks), out)
    }

    /// Bytes of the coefficients that it holds.
    pub(super) fn bytes(&self) -> u64 {
        self.planes.bytes()
    }

    /// Frees them.
    pub(super) fn free(&mut self) {
        self.planes = Planes::default();
    }
}

fn ready(library: &mut Option<Library>) -> Option<&mut Library> {
    if library.is_none() {
        *library = Library::new();
    }
    library.as_mut()
}
