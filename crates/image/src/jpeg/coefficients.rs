//! Stores JPEGs as packed coefficients, from which they are decoded without reading Huffman codes again. The
//! decoded pixels equal those of the file.

use forebay_base::{Error, Result};
use image::metadata::Orientation;

use super::super::buffer::Buffer;
use super::super::depth::Depth;
use super::super::exif;
use super::super::output::{Stages, Whole, bytes_after, bytes_of_fills};
use super::super::pixels::{luma_in_place, transposes};
use super::super::refuse::{bad_row, check_size};
use super::super::resample::Decoded;
use super::super::shown::Shown;
use super::super::spec::{Image, LUMA, RGB};
use super::super::workspace::Workspace;
use super::decoder::{
    BYTES_PER_COLUMN, DECODER_BYTES_PER_PIXEL, Decoder, MAX_SCANS, MIB_SHIFT, check_structure,
    has_its_tables, needed, samples,
};
use super::entropy::{Facts, PackedImage, Request, is_packed};
use super::ffi::{Info, Stored};
use super::markers::Markers;
use super::region::ReducedRegion;

impl Decoder {
    /// Packs the coefficients of a JPEG of at most `max_pixels`. Returns `None` if the JPEG must be kept as a
    /// file, because it is damaged, is neither grey nor in three colours, or is of an unsupported kind.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn keep_coefficients(
        &mut self,
        max_pixels: u64,
        encoded: &[u8],
        workspace: &Workspace,
    ) -> Result<Option<Vec<u8>>> {
        Ok(self.coefficients_of(max_pixels, encoded, workspace)?.map(|packed| packed.bytes))
    }

    /// Packs the coefficients of a JPEG. Returns `None` if a baseline JPEG cannot be made of them again.
    ///
    /// # Errors
    /// The errors of [`keep_coefficients`].
    pub(crate) fn pack(
        &mut self,
        max_pixels: u64,
        encoded: &[u8],
        workspace: &Workspace,
    ) -> Result<Option<Vec<u8>>> {
        let packed = self.coefficients_of(max_pixels, encoded, workspace)?;
        // If the regions of a JPEG cannot be decoded separately, `unpack` writes it with one scan for each
        // component, so that the new file too is decoded as a whole. This is impossible for a grey JPEG,
        // which has only one component, so a grey one is not packed.
        let has_a_way_back = |packed: &PackedImage| {
            let is_grey_and_whole = Facts::read(&packed.bytes)
                .is_some_and(|facts| usize::from(facts.channels) == LUMA && facts.mcu_width.is_none());
            packed.fits_baseline && !is_grey_and_whole
        };
        Ok(packed.filter(has_a_way_back).map(|packed| packed.bytes))
    }

    /// Makes a baseline JPEG of packed coefficients, with the orientation of the image.
    ///
    /// # Errors
    /// Fails if the coefficients are damaged, have too many pixels, or take too much memory.
    pub(crate) fn unpack(
        &mut self,
        max_pixels: u64,
        packed: &[u8],
        workspace: &Workspace,
    ) -> Result<Vec<u8>> {
        let facts = facts(packed)?;
        check_size(facts.width, facts.height, max_pixels)?;
        let pixels = u64::from(facts.width) * u64::from(facts.height);
        let _taken = workspace.take(pixels * DECODER_BYTES_PER_PIXEL, || named(&facts))?;
        let request = Request {
            encoded: packed,
            memory: memory(max_pixels),
            reduction: 1,
            colours: facts.channels.into(),
        };
        let exif = exif::of_orientation(facts.orientation);
        let apart = facts.mcu_width.is_none();
        self.entropy.unpack(request, apart, &exif).ok_or_else(damaged)
    }

    fn coefficients_of(
        &mut self,
        max_pixels: u64,
        encoded: &[u8],
        workspace: &Workspace,
    ) -> Result<Option<PackedImage>> {
        let Some(markers) = Markers::read(encoded) else { return Ok(None) };
        let Some((width, height)) = markers.size else { return Ok(None) };
        check_size(width, height, max_pixels)?;
        check_structure(&markers, encoded)?;
        let Ok(opened) = self.open(encoded, &markers, max_pixels) else { return Ok(None) };
        let info = opened.info();
        self.idle = Some(opened.close());
        if info.stored == Stored::Cmyk || (info.width, info.height) != (width, height) {
            return Ok(None);
        }
        let croppable = info.mcu_width == Some(markers.mcu_width());
        let facts = Facts {
            width,
            height,
            channels: if info.stored == Stored::Luma { LUMA as u8 } else { RGB as u8 },
            orientation: markers.orientation().to_exif(),
            mcu_width: croppable.then_some(markers.mcu_width() as u8),
        };
        let scans = if markers.one_scan() { 0 } else { markers.coefficients() };
        let beside = u64::from(width) * BYTES_PER_COLUMN + most_bytes(encoded);
        let memory = (self.memory_mib as usize) << MIB_SHIFT;
        let request = Request { encoded, memory, reduction: 1, colours: facts.channels.into() };
        let entropy = &mut self.entropy;
        let taken = workspace.take(scans + beside, || named(&facts))?;
        let own = match markers.progressive {
            _ if !has_its_tables(&markers) => None,
            true => entropy.pack_progressive(request, MAX_SCANS as usize, facts),
            false if info.sequential => entropy.pack_baseline(request, facts),
            false => None,
        };
        if own.is_some() || markers.redefines_quantization(encoded) {
            return Ok(own);
        }
        drop(taken);
        let _taken = workspace.take(markers.coefficients() + beside, || named(&facts))?;
        // Regions can be decoded separately only if the file is sequential and has all components in one
        // scan.
        let in_part = markers.one_scan() && info.sequential;
        let mcu_width = facts.mcu_width.filter(|_| in_part);
        Ok(entropy.pack_other(request, Facts { mcu_width, ..facts }))
    }

    /// Decodes packed coefficients into the slots of `shown`. The pixels equal those of the JPEG file from
    /// which the coefficients were packed.
    pub(crate) fn decode_coefficients(
        &mut self,
        image: &Image,
        kept: &[u8],
        shown: &mut [Shown<'_>],
        stages: &mut Stages,
        workspace: &Workspace,
    ) -> Result<()> {
        let facts = facts(kept)?;
        check_size(facts.width, facts.height, image.max_pixels)?;
        let stored = if usize::from(facts.channels) == LUMA { Stored::Luma } else { Stored::Colour };
        let mcu_width = facts.mcu_width.map(u32::from);
        let info = Info { width: facts.width, height: facts.height, stored, mcu_width, sequential: true };
        let channels = image.channels();
        let orientation = orientation(image, &facts);
        let take = |bytes: u64| workspace.take(bytes, || named(&facts));
        if orientation != Orientation::NoTransforms {
            let part = ReducedRegion::whole(&info);
            let whole = Whole { rect: part.rect, orientation, depth: Depth::Eight };
            let _taken = take(needed(&info, &part, 0, channels) + bytes_after(channels, whole, shown))?;
            self.read(image, kept, &info, &part, &mut stages.pixels)?;
            return stages.fill_from_whole(channels, whole, shown);
        }
        let frames = Shown::frames(shown, info.width, info.height);
        let part = ReducedRegion::covering(&info, &frames);
        let after = bytes_of_fills(shown, &frames, part.reduction, Depth::Eight);
        let _taken = take(needed(&info, &part, 0, channels) + after)?;
        self.read(image, kept, &info, &part, &mut stages.pixels)?;
        let ReducedRegion { rect, reduction, .. } = part;
        let pixels = stages.pixels.get(rect.width as usize * rect.height as usize * channels);
        let decoded = Decoded { pixels, rect, reduction, channels, depth: Depth::Eight };
        stages.output.fill_each(decoded, &frames, shown)
    }

    /// Decodes a part of an image into `pixels`.
    fn read(
        &mut self,
        image: &Image,
        kept: &[u8],
        info: &Info,
        part: &ReducedRegion,
        pixels: &mut Buffer,
    ) -> Result<()> {
        let channels = image.channels();
        let per_pixel = samples(info, channels).per_pixel();
        let count = part.rect.width as usize * part.rect.height as usize;
        let out = pixels.take(count * per_pixel);
        let memory = memory(image.max_pixels);
        let request = Request { encoded: kept, memory, reduction: part.reduction, colours: per_pixel };
        if !self.entropy.packed(request, part.region(), out) {
            return Err(damaged());
        }
        if channels != RGB && per_pixel == RGB {
            luma_in_place(out, count);
        }
        Ok(())
    }
}

/// Whether bytes are packed coefficients of a JPEG.
pub(crate) fn is_coefficients(bytes: &[u8]) -> bool {
    is_packed(bytes)
}

/// The width and height of an image kept as coefficients, after its EXIF orientation if `image` applies it.
pub(crate) fn coefficients_seen_size(image: &Image, kept: &[u8]) -> Result<(u32, u32)> {
    let facts = facts(kept)?;
    match transposes(orientation(image, &facts)) {
        true => Ok((facts.height, facts.width)),
        false => Ok((facts.width, facts.height)),
    }
}

/// An upper bound of the bytes that the packed coefficients of a photograph take.
pub(crate) fn most_bytes(encoded: &[u8]) -> u64 {
    encoded.len() as u64 * 7 / 5
}

/// The bytes that libjpeg-turbo may take for an image of at most `max_pixels`.
fn memory(max_pixels: u64) -> usize {
    max_pixels.saturating_mul(DECODER_BYTES_PER_PIXEL).clamp(1 << MIB_SHIFT, i64::MAX as u64) as usize
}

fn facts(kept: &[u8]) -> Result<Facts> {
    Facts::read(kept).ok_or_else(damaged)
}

fn damaged() -> Error {
    bad_row("damaged coefficients of a JPEG")
}

fn orientation(image: &Image, facts: &Facts) -> Orientation {
    let stored = Orientation::from_exif(facts.orientation).filter(|_| image.exif_orientation);
    stored.unwrap_or(Orientation::NoTransforms)
}

fn named(facts: &Facts) -> String {
    format!("a JPEG of {}x{} pixels", facts.width, facts.height)
}
