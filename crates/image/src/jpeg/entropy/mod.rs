//! The fast path for JPEG: libjpeg-turbo with a Huffman decoder of this crate in place of the library's.
//!
//! Huffman decoding is most of the work of a JPEG, and half of it can be saved (docs/entropy.md). The library
//! reads the header, and makes pixels from coefficients where [`rows`] does not: on processors without a
//! faster [`transform`], and for unusual samplings. A file that is not a valid baseline or progressive JPEG
//! is declined. The library alone then decodes it and reports what is wrong, so pixels and errors are the
//! same either way.
//!
//! The coefficients of a baseline JPEG are used as they are decoded ([`sequential`]). Those of a progressive
//! one are collected first, in [`planes`]. Both can be [packed], and decoding packed coefficients takes less
//! work. To pack any other kind of JPEG, the library reads the coefficients.

mod bits;
mod block;
mod colours;
mod frame;
mod library;
mod packed;
mod planes;
mod progressive;
mod request;
mod rows;
mod sequential;
mod tables;
#[cfg(test)]
mod tests;
mod transform;

use super::ffi::Region;
use super::markers::{PREFIX, SOI, SOS};
use bits::BitBuffer;
use block::{BLOCKS, Block};
use frame::{BaselineHeader, DAC, Frame, Segments};
use library::Library;
use packed::Writer;
pub(super) use packed::{Facts, PackedImage, is_packed};
use planes::{Planes, PlanesMcus};
use progressive::Progressive;
pub(super) use request::Request;
use sequential::{Mcus, NATURAL, Tables};
use tables::{AcTable, DcTable, Known};

/// The library, tables and buffers that one thread reuses for all its images.
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
    /// Decodes a region of a baseline JPEG, or the whole image, into `out`, whose length must fit exactly.
    /// Returns false if the image is declined; `out` may then contain anything.
    pub(super) fn baseline(&mut self, request: Request<'_>, region: Option<Region>, out: &mut [u8]) -> bool {
        let EntropyDecoder { library, dc, ac, window, .. } = self;
        let Some(scan) = ready(library).and_then(|library| library.start(request)) else { return false };
        let (blocks, in_mcu) = scan.blocks();
        let Some(tables) = Tables::defined_by(&scan, dc, ac) else { return false };
        let Some(mut mcus) = Mcus::new(&scan, &blocks[..in_mcu], &tables, window) else { return false };
        scan.read(region, |blocks| mcus.next(blocks), out) && mcus.sound()
    }

    /// Decodes a progressive JPEG of at most `most_scans` scans, like [`baseline`](Self::baseline).
    pub(super) fn progressive(
        &mut self,
        request: Request<'_>,
        most_scans: usize,
        region: Option<Region>,
        out: &mut [u8],
    ) -> bool {
        let EntropyDecoder { library, window, progressive, planes, .. } = self;
        let decoded = progressive.decode(request.encoded, request.memory, most_scans, window, planes);
        let Some((header, _)) = decoded else { return false };
        let request = Request { encoded: &header, ..request };
        let Some(scan) = ready(library).and_then(|library| library.start(request)) else { return false };
        let mut mcus = PlanesMcus::new(planes);
        scan.read(region, |blocks| mcus.next(blocks), out)
    }

    /// Packs all coefficients of a baseline JPEG; `None` if it is declined.
    pub(super) fn pack_baseline(&mut self, request: Request<'_>, facts: Facts) -> Option<PackedImage> {
        let EntropyDecoder { library, dc, ac, window, .. } = self;
        let (header, frame) = header(request.encoded)?;
        let scan = ready(library)?.start(request)?;
        let (blocks, in_mcu) = scan.blocks();
        let tables = Tables::defined_by(&scan, dc, ac)?;
        let mut mcus = Mcus::new(&scan, &blocks[..in_mcu], &tables, window)?;
        let mut writer = Writer::new(&frame);
        if (writer.in_mcu(), writer.mcus()) != (in_mcu, scan.mcus()) {
            return None;
        }
        let (mut blocks, mut masks) = ([[0; 64]; BLOCKS], [0; BLOCKS]);
        let (blocks, masks) = (blocks.get_mut(..in_mcu)?, masks.get_mut(..in_mcu)?);
        for _ in 0..scan.mcus() {
            mcus.next_with_masks(blocks, masks);
            writer.add(blocks.iter().zip(masks.iter().copied()));
        }
        mcus.sound().then(|| writer.finish(facts, &header)).flatten()
    }

    /// Packs all coefficients of a progressive JPEG of at most `most_scans` scans; `None` if it is declined.
    pub(super) fn pack_progressive(
        &mut self,
        request: Request<'_>,
        most_scans: usize,
        facts: Facts,
    ) -> Option<PackedImage> {
        let EntropyDecoder { library, window, progressive, planes, .. } = self;
        let (header, frame) =
            progressive.decode(request.encoded, request.memory, most_scans, window, planes)?;
        // If the library refuses the header, nothing is packed, and the caller keeps the JPEG as a file.
        ready(library)?.start(Request { encoded: &header, ..request })?;
        let mut writer = Writer::new(&frame);
        for (row, column) in (0..planes.mcu_rows).flat_map(|y| (0..planes.mcus_per_row).map(move |x| (y, x)))
        {
            writer.add(planes.mcu(column, row));
        }
        writer.finish(facts, &header)
    }

    /// Packs all coefficients of a JPEG of any kind, which the library reads; `None` if it is declined.
    pub(super) fn pack_other(&mut self, request: Request<'_>, facts: Facts) -> Option<PackedImage> {
        let (header, frame) = header(request.encoded)?;
        let mut writer = Writer::new(&frame);
        let in_mcu = writer.in_mcu();
        // If the library refuses the header, nothing is packed, and the caller keeps the JPEG as a file.
        let scan = ready(&mut self.library)?.start(Request { encoded: &header, ..request })?;
        if (scan.blocks().1, scan.mcus()) != (in_mcu, writer.mcus()) {
            return None;
        }
        drop(scan);
        // A new library is used here, because a used one keeps the tables of earlier images, and later scans
        // might refer to those tables.
        let read = Library::new()?.coefficients(request, in_mcu, |blocks| {
            let blocks = blocks.unwrap_or_default().iter();
            writer.add(blocks.map(|block| (&**block, nonzero(block))));
        });
        read.then(|| writer.finish(facts, &header)).flatten()
    }

    /// Decodes packed coefficients like [`baseline`](Self::baseline).
    pub(super) fn packed(&mut self, request: Request<'_>, region: Option<Region>, out: &mut [u8]) -> bool {
        let Some(header) = packed::header(request.encoded) else { return false };
        let of_header = Request { encoded: header, ..request };
        let Some(scan) = ready(&mut self.library).and_then(|library| library.start(of_header)) else {
            return false;
        };
        let (blocks, in_mcu) = scan.blocks();
        let Some(mut reader) = packed::reader(request.encoded, &scan, &blocks[..in_mcu]) else {
            return false;
        };
        scan.read(region, |blocks| reader.next(blocks), out) && reader.sound()
    }

    /// Makes a JPEG of packed coefficients: with one scan, or with a scan for each component if `apart`.
    /// `exif` becomes the segment APP1 unless it is empty. Returns `None` if the coefficients are damaged.
    pub(super) fn unpack(&mut self, request: Request<'_>, apart: bool, exif: &[u8]) -> Option<Vec<u8>> {
        let header = packed::header(request.encoded)?;
        let scan = ready(&mut self.library)?.start(Request { encoded: header, ..request })?;
        let (blocks, in_mcu) = scan.blocks();
        let mut reader = packed::reader(request.encoded, &scan, &blocks[..in_mcu])?;
        let jpeg = scan.write(|blocks| reader.next(blocks), apart, exif)?;
        reader.sound().then_some(jpeg)
    }

    /// The number of bytes that the decoder holds between two images, for coefficients and samples.
    pub(super) fn bytes(&self) -> u64 {
        self.planes.bytes() + self.library.as_ref().map_or(0, Library::bytes)
    }

    /// Frees the memory for coefficients and samples.
    pub(super) fn free(&mut self) {
        self.planes = Planes::default();
        if let Some(library) = &mut self.library {
            library.free();
        }
    }
}

fn ready(library: &mut Option<Library>) -> Option<&mut Library> {
    if library.is_none() {
        *library = Library::new();
    }
    library.as_mut()
}

/// The mask of a block's AC coefficients that are not zero. Bit `63 - k` stands for coefficient `k` in zigzag
/// order.
fn nonzero(block: &Block) -> u64 {
    let bit = |k: usize| (u64::from(block[usize::from(NATURAL[k])] != 0) << 63) >> k;
    (1..block.len()).fold(0, |mask, k| mask | bit(k))
}

/// The header of a baseline JPEG with the same coefficients, and its frame.
fn header(encoded: &[u8]) -> Option<(Vec<u8>, Frame)> {
    let mut segments = Segments { rest: encoded.strip_prefix(&[PREFIX, SOI])? };
    let (mut header, mut frame) = (BaselineHeader::new(), None);
    loop {
        let (marker, content, segment) = segments.next()?;
        match marker {
            SOS => break,
            0xC0 | 0xC1 | 0xC2 | 0xC9 | 0xCA if frame.is_none() => frame = Some(Frame::read(content)?),
            // This segment is only for arithmetic coding, which the new header does not use.
            DAC => continue,
            _ => {}
        }
        header.add((marker, content, segment)).then_some(())?;
    }
    let frame = frame?;
    Some((header.finish(&frame), frame))
}
