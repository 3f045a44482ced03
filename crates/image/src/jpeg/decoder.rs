//! The decoders of a thread, which can decode a part of an image.

use forebay_base::{Error, ErrorKind, Result};

use super::super::pixels;
use super::super::refuse::bad_row;
use super::super::spec::{LUMA, RGB};
use super::damage;
use super::entropy::{EntropyDecoder, Request};
use super::ffi::{self, Decompressor, OpenedJpeg, Samples, Stored};
use super::markers::Markers;
use super::region::ReducedRegion;

/// The most scans of a progressive image. Encoders usually write about 10 scans, and at most 192 if each
/// coefficient of three components has its own scan. Each scan may cost a pass over the whole image.
pub(super) const MAX_SCANS: u32 = 192;

/// The memory limit of libjpeg-turbo in bytes, for each pixel of the largest image that is accepted. It
/// covers the coefficients that are kept between scans, three of 16 bits for each pixel, and some reserve.
pub(super) const DECODER_BYTES_PER_PIXEL: u64 = 8;
pub(super) const MIB_SHIFT: u32 = 20;

/// The bytes that libjpeg-turbo takes for its working rows, for each column of the image. Each of its stages
/// holds one row of MCUs with up to four components, and some rows of pixels above and below.
pub(super) const BYTES_PER_COLUMN: u64 = 512;

/// The decompressors of a thread, which are made when first needed and again after a failure.
#[derive(Default)]
pub(crate) struct Decoder {
    pub(super) entropy: EntropyDecoder,
    pub(super) idle: Option<Decompressor>,
    /// The memory limit of the idle decompressor in MiB.
    pub(super) memory_mib: u32,
}

impl Decoder {
    /// Reads a header with a decompressor whose memory is limited for `max_pixels`.
    ///
    /// A decompressor keeps the tables of earlier images. So a used one is taken only if the image has all of
    /// its own tables, or if only its header is read: pixels of a progressive image that the fast path
    /// declines are decoded with a new one.
    pub(super) fn open<'a>(
        &mut self,
        encoded: &'a [u8],
        markers: &Markers<'_>,
        max_pixels: u64,
    ) -> Result<OpenedJpeg<'a>, ffi::Message> {
        let memory_mib = (max_pixels.saturating_mul(DECODER_BYTES_PER_PIXEL) >> MIB_SHIFT)
            .clamp(1, i32::MAX as u64) as u32;
        match self.idle.take() {
            Some(idle) if self.memory_mib == memory_mib && has_its_tables(markers) => idle.open(encoded),
            _ => {
                self.memory_mib = memory_mib;
                self.open_anew(encoded)
            }
        }
    }

    /// Opens the image with a new decompressor, with the same limits.
    fn open_anew<'a>(&self, encoded: &'a [u8]) -> Result<OpenedJpeg<'a>, ffi::Message> {
        Decompressor::new(MAX_SCANS, self.memory_mib)?.open(encoded)
    }

    /// The number of bytes that the decoder holds between two images, for coefficients and samples.
    pub(crate) fn bytes(&self) -> u64 {
        self.entropy.bytes()
    }

    /// Frees the memory for coefficients and samples.
    pub(crate) fn free(&mut self) {
        self.entropy.free();
    }

    /// Decodes a part of an image with the crate's own Huffman decoder, as RGB or luma. `out` must have
    /// [`bytes_of`] bytes. Returns false if the image must be decoded with the library instead.
    pub(super) fn decode_own(
        &mut self,
        opened: &OpenedJpeg<'_>,
        part: &ReducedRegion,
        markers: &Markers<'_>,
        channels: usize,
        out: &mut [u8],
    ) -> bool {
        let samples = samples(&opened.info(), channels);
        if samples == Samples::Cmyk {
            return false;
        }
        let count = part.rect.width as usize * part.rect.height as usize;
        let request = Request {
            encoded: opened.encoded(),
            memory: (self.memory_mib as usize) << MIB_SHIFT,
            reduction: part.reduction,
            colours: samples.per_pixel(),
        };
        let decoded = match markers.progressive {
            _ if !has_its_tables(markers) => false,
            true => self.entropy.progressive(request, MAX_SCANS as usize, part.region(), out),
            false => opened.info().sequential && self.entropy.baseline(request, part.region(), out),
        };
        if decoded && channels != RGB && samples != Samples::Luma {
            pixels::luma_in_place(out, count);
        }
        decoded
    }

    /// Decodes a part of an image like [`decode_own`](Self::decode_own) with the library alone, and keeps the
    /// decompressor for the next image.
    pub(super) fn decode_with_library(
        &mut self,
        opened: OpenedJpeg<'_>,
        part: &ReducedRegion,
        markers: &Markers<'_>,
        channels: usize,
        out: &mut [u8],
    ) -> Result<(), ffi::Message> {
        let samples = samples(&opened.info(), channels);
        let count = part.rect.width as usize * part.rect.height as usize;
        let opened = if markers.one_scan() { opened } else { self.open_anew(opened.encoded())? };
        match opened.decompress(part.reduction, part.region(), samples, out) {
            Ok(idle) => self.idle = Some(idle),
            // Without restart markers, the library looks for a marker only after the last sample, so all
            // pixels are already there.
            Err(message)
                if damage::is_padding(&message) && markers.one_scan() && markers.restart_interval == 0 => {}
            Err(message) => return Err(message),
        }
        if samples == Samples::Cmyk {
            pixels::inverted_cmyk_to_rgb_in_place(out, count);
        }
        if channels != RGB && samples != Samples::Luma {
            pixels::luma_in_place(out, count);
        }
        Ok(())
    }
}

/// Whether the image defines all tables that it uses, so that tables of earlier images cannot change it. The
/// Huffman tables of a progressive image are not checked here, because the crate's own decoder checks them.
/// Returns false for a sequential image with several scans, because its later scans are not checked.
pub(super) fn has_its_tables(markers: &Markers<'_>) -> bool {
    match markers.progressive {
        true => markers.has_its_quantization(),
        false => markers.one_scan() && markers.has_its_tables(),
    }
}

/// The sample format of the pixels of a part.
pub(super) fn samples(info: &ffi::Info, channels: usize) -> Samples {
    match (info.stored, channels) {
        (Stored::Cmyk, _) => Samples::Cmyk,
        (Stored::Luma, LUMA) => Samples::Luma,
        _ => Samples::Rgb,
    }
}

/// The number of bytes that a part takes while it is decoded. The decoded samples may have more channels than
/// the result: CMYK is converted to RGB, and RGB to luma, only after all pixels are decoded.
pub(super) fn bytes_of(info: &ffi::Info, part: &ReducedRegion, channels: usize) -> usize {
    part.rect.width as usize * part.rect.height as usize * samples(info, channels).per_pixel()
}

/// The most bytes that decoding a part takes: its pixels, the rows that libjpeg-turbo works on, and `scans`,
/// which is the size of all coefficients if the image has several scans.
pub(super) fn needed(info: &ffi::Info, part: &ReducedRegion, scans: u64, channels: usize) -> u64 {
    let pixels = u64::from(part.rect.width) * u64::from(part.rect.height);
    pixels * samples(info, channels).per_pixel() as u64 + u64::from(info.width) * BYTES_PER_COLUMN + scans
}

/// Checks for damage that a decoder misses if it stops below the crop: a missing end, and too many scans.
pub(super) fn check_structure(markers: &Markers<'_>, encoded: &[u8]) -> Result<()> {
    if !markers.has_end(encoded) {
        return Err(bad_row("corrupt JPEG: premature end of file"));
    }
    if !markers.one_scan() && markers.scans(encoded, MAX_SCANS as usize) > MAX_SCANS as usize {
        return Err(Error::new(ErrorKind::TooLarge, format!("a JPEG of more than {MAX_SCANS} scans")));
    }
    Ok(())
}
