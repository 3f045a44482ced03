//! JPEG through libjpeg-turbo: only the rows and columns that are needed, at the scale that is needed.
//!
//! A crop of a one-scan file is decoded inside the library: rows above it are only entropy-decoded, rows below it are not
//! touched, columns beside it are not transformed. Of a progressive file all coefficients are decoded, and the rest is done
//! for the crop. Everything else (other files of several scans, progressive ones that are not sound, unusual sampling, CMYK,
//! turned by EXIF) is decoded whole.

mod coefficients;
mod damage;
mod entropy;
mod ffi;
mod markers;
mod region;
mod repair;
#[cfg(test)]
mod tests;

use image::metadata::Orientation;

use super::depth::Depth;
use super::geometry::FrameOf;
use super::header::{Format, Header};
use super::output::{Whole, bytes_after, bytes_of_fill};
use super::resample::Decoded;
use super::scratch::{Buffer, Scratch};
use super::spec::{Image, LUMA, RGB};
use super::workspace::Workspace;
use super::{bad_row, check_size, pixels};
pub(super) use coefficients::{
    coefficients_seen_size, decode_coefficients, is_coefficients, keep_coefficients, most_bytes, pack, unpack,
};
use entropy::{EntropyDecoder, Request};
use ffi::{Decompressor, Opened, Samples, Stored};
use forebay_base::{Error, ErrorKind, Result};
use markers::Markers;
use region::ReducedRegion;

/// Most scans of a progressive image. Encoders write about 10, and one that sends each coefficient of three components
/// by itself 192; each may cost a pass over the whole image.
const MAX_SCANS: u32 = 192;

/// Memory per pixel of the size limit that coefficients may take between scans: three 16-bit ones, and some.
const DECODER_BYTES_PER_PIXEL: u64 = 8;
const MIB_SHIFT: u32 = 20;

/// Bytes per column of the image that the library takes for the rows that it works on: those of one iMCU in each stage, of
/// up to four components, with context above and below.
const BYTES_PER_COLUMN: u64 = 512;

/// One thread's decompressors, made when first needed and again after a failure.
#[derive(Default)]
pub(super) struct Decoder {
    entropy: EntropyDecoder,
    idle: Option<Decompressor>,
    /// The memory limit that the idle one has.
    memory_mib: u32,
}

impl Decoder {
    /// Reads a header with a decompressor that is limited for `max_pixels`.
    ///
    /// A decompressor keeps its tables. So one that was used before is taken only if the image has all of its own, or if it is
    /// only to read the header: pixels of a progressive image that we decline are left to a new one.
    fn open<'a>(
        &mut self,
        encoded: &'a [u8],
        markers: &Markers<'_>,
        max_pixels: u64,
    ) -> Result<Opened<'a>, ffi::Message> {
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

    /// The same with a new decompressor, of the same limits.
    fn open_anew<'a>(&self, encoded: &'a [u8]) -> Result<Opened<'a>, ffi::Message> {
        Decompressor::new(MAX_SCANS, self.memory_mib)?.open(encoded)
    }

    /// Bytes of the coefficients that it holds.
    pub(super) fn bytes(&self) -> u64 {
        self.entropy.bytes()
    }

    /// Frees them.
    pub(super) fn free(&mut self) {
        self.entropy.free();
    }
}

/// Whether no part of an image depends on tables that another one defined. Our decoder of progressive images checks Huffman
/// tables itself; later scans of other images are not checked.
fn has_its_tables(markers: &Markers<'_>) -> bool {
    match markers.progressive {
        true => markers.has_its_quantization(),
        false => markers.one_scan() && markers.has_its_tables(),
    }
}

/// Decodes a part of an image into `pixels` with our own Huffman decoder, as RGB or luma. Returns whether it did.
fn decode_own(
    opened: &Opened<'_>,
    part: &ReducedRegion,
    markers: &Markers<'_>,
    channels: usize,
    (decoder, pixels): (&mut Decoder, &mut Buffer),
) -> bool {
    let samples = samples(&opened.info(), channels);
    if samples == Samples::Cmyk {
        return false;
    }
    let count = part.rect.width as usize * part.rect.height as usize;
    let out = pixels.take(count * samples.per_pixel());
    let request = Request {
        encoded: opened.encoded(),
        memory: (decoder.memory_mib as usize) << MIB_SHIFT,
        reduction: part.reduction,
        colours: samples.per_pixel(),
    };
    let decoded = match markers.progressive {
        _ if !has_its_tables(markers) => false,
        true => decoder.entropy.progressive(request, MAX_SCANS as usize, part.region(), out),
        false => opened.info().sequential && decoder.entropy.baseline(request, part.region(), out),
    };
    if decoded && channels != RGB && samples != Samples::Luma {
        pixels::luma_in_place(out, count);
    }
    decoded
}

/// Decodes a part of an image into `pixels` with the library alone, as RGB or luma, and hands the decompressor back to
/// `decoder`.
fn decode_with_library(
    opened: Opened<'_>,
    part: &ReducedRegion,
    markers: &Markers<'_>,
    channels: usize,
    (decoder, pixels): (&mut Decoder, &mut Buffer),
) -> Result<(), ffi::Message> {
    let samples = samples(&opened.info(), channels);
    let count = part.rect.width as usize * part.rect.height as usize;
    let out = pixels.take(count * samples.per_pixel());
    let opened = if markers.one_scan() { opened } else { decoder.open_anew(opened.encoded())? };
    match opened.decompress(part.reduction, part.region(), samples, out) {
        Ok(idle) => decoder.idle = Some(idle),
        // Without restart markers the library looks for a marker only after the last sample, so all pixels are there.
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

/// The samples of the pixels of a part.
fn samples(info: &ffi::Info, channels: usize) -> Samples {
    match (info.stored, channels) {
        (Stored::Cmyk, _) => Samples::Cmyk,
        (Stored::Luma, LUMA) => Samples::Luma,
        _ => Samples::Rgb,
    }
}

/// Bytes that decoding a part takes at most: its pixels, the rows that the library works on, and all coefficients where
/// several `scans` make them.
fn needed(info: &ffi::Info, part: &ReducedRegion, scans: u64, channels: usize) -> u64 {
    let pixels = u64::from(part.rect.width) * u64::from(part.rect.height);
    pixels * samples(info, channels).per_pixel() as u64 + u64::from(info.width) * BYTES_PER_COLUMN + scans
}

fn named(info: &ffi::Info, markers: &Markers<'_>) -> String {
    let kind = if markers.one_scan() { "JPEG" } else { "progressive JPEG" };
    format!("a {kind} of {}x{} pixels", info.width, info.height)
}

/// The header of a JPEG.
pub(super) fn probe(encoded: &[u8]) -> Result<Header> {
    let markers = Markers::read(encoded).ok_or_else(|| bad_row("corrupt JPEG: no scan"))?;
    let (width, height) = markers.size.ok_or_else(|| bad_row("corrupt JPEG: no frame header"))?;
    let progressive = !markers.one_scan();
    Ok(Header { format: Format::Jpeg, width, height, channels: markers.components, progressive })
}

/// The orientation in a JPEG's EXIF data.
pub(super) fn orientation(encoded: &[u8]) -> Result<Orientation> {
    Ok(Markers::read(encoded).ok_or_else(|| bad_row("corrupt JPEG: no scan"))?.orientation())
}

/// Decodes a JPEG into its slot.
pub(super) fn decode_into(
    image: &Image,
    encoded: &[u8],
    frame_of: &FrameOf<'_>,
    slot: &mut [u8],
    (scratch, workspace): (&mut Scratch, &Workspace),
) -> Result<()> {
    match decode_strictly(image, encoded, frame_of, slot, (scratch, workspace)) {
        Err(Failure::Codec(message)) if damage::is_harmless_before_scan(&message) => {
            let clean = repair::without_oddities(encoded).ok_or_else(|| damage::error(&message))?;
            decode_strictly(image, &clean, frame_of, slot, (scratch, workspace)).map_err(Failure::into_error)
        }
        other => other.map_err(Failure::into_error),
    }
}

/// The reason why a decode failed: the library's message, or our own error.
enum Failure {
    Codec(ffi::Message),
    Ours(Error),
}

impl Failure {
    fn into_error(self) -> Error {
        match self {
            Failure::Codec(message) => damage::error(&message),
            Failure::Ours(error) => error,
        }
    }
}

impl From<ffi::Message> for Failure {
    fn from(message: ffi::Message) -> Self {
        Failure::Codec(message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Ours(error)
    }
}

/// Decodes a JPEG into its slot; the library's first warning is a failure.
fn decode_strictly(
    image: &Image,
    encoded: &[u8],
    frame_of: &FrameOf<'_>,
    slot: &mut [u8],
    (scratch, workspace): (&mut Scratch, &Workspace),
) -> Result<(), Failure> {
    let markers = Markers::read(encoded).ok_or_else(|| bad_row("corrupt JPEG: no scan"))?;
    if let Some((width, height)) = markers.size {
        check_size(width, height, image.max_pixels)?;
    }
    check_structure(&markers, encoded)?;
    let opened = scratch.decoder.open(encoded, &markers, image.max_pixels)?;
    let info = opened.info();
    check_size(info.width, info.height, image.max_pixels)?;

    let channels = image.channels();
    let scans = if markers.one_scan() { 0 } else { markers.coefficients() };
    let orientation = if image.exif_orientation { markers.orientation() } else { Orientation::NoTransforms };
    if orientation != Orientation::NoTransforms {
        let part = ReducedRegion::whole(&info);
        let whole = Whole { rect: part.rect, orientation, depth: Depth::Eight };
        let needed = needed(&info, &part, scans, channels) + bytes_after(image, whole, frame_of);
        let _taken = workspace.take(needed, || named(&info, &markers))?;
        let Scratch { decoder, pixels, .. } = scratch;
        if decode_own(&opened, &part, &markers, channels, (decoder, pixels)) {
            decoder.idle = Some(opened.close());
        } else {
            decode_with_library(opened, &part, &markers, channels, (decoder, pixels))?;
        }
        return Ok(scratch.fill_from_whole(image, whole, frame_of, slot)?);
    }
    let frame = frame_of(info.width, info.height);
    let needed = |part: &ReducedRegion| {
        needed(&info, part, scans, channels) + bytes_of_fill(image, &frame, part.reduction, Depth::Eight)
    };
    let croppable = info.mcu_width == Some(markers.mcu_width()) && info.stored != Stored::Cmyk;
    let in_part = croppable && (markers.progressive || markers.one_scan() && info.sequential);
    let mut part = match in_part {
        true => ReducedRegion::of(&info, &frame.sampling, frame.target),
        false => ReducedRegion::whole(&info),
    };
    let mut taken = workspace.take(needed(&part), || named(&info, &markers))?;
    let Scratch { decoder, pixels, .. } = scratch;
    if decode_own(&opened, &part, &markers, channels, (decoder, pixels)) {
        decoder.idle = Some(opened.close());
    } else {
        if markers.progressive && in_part {
            drop(taken);
            part = ReducedRegion::whole(&info);
            taken = workspace.take(needed(&part), || named(&info, &markers))?;
        }
        decode_with_library(opened, &part, &markers, channels, (decoder, pixels))?;
    }
    let ReducedRegion { rect, reduction, .. } = part;
    let pixels = scratch.pixels.get(rect.width as usize * rect.height as usize * channels);
    let decoded = Decoded { pixels, rect, reduction, channels, depth: Depth::Eight };
    let filled = scratch.output.fill(image, decoded, &frame, slot);
    drop(taken);
    Ok(filled?)
}

/// Checks for damage that a decoder does not see if it stops below the crop: a missing end, and too many scans.
fn check_structure(markers: &Markers<'_>, encoded: &[u8]) -> Result<()> {
    if !markers.has_end(encoded) {
        return Err(bad_row("corrupt JPEG: premature end of file"));
    }
    if !markers.one_scan() && markers.scans(encoded, MAX_SCANS as usize) > MAX_SCANS as usize {
        return Err(Error::new(ErrorKind::TooLarge, format!("a JPEG of more than {MAX_SCANS} scans")));
    }
    Ok(())
}

/// Encodes RGB pixels (`height * width * 3` bytes, interleaved) as a baseline JPEG with 4:2:0 chroma subsampling.
///
/// `quality` is libjpeg's scale from 1 to 100.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a size, quality or length that do not fit together.
pub fn encode_jpeg(rgb: &[u8], width: u32, height: u32, quality: u8) -> Result<Vec<u8>> {
    if rgb.len() as u64 != u64::from(width) * u64::from(height) * RGB as u64 {
        return Err(Error::invalid(format!("{} bytes for {width}x{height} RGB pixels", rgb.len())));
    }
    let settings = [ffi::quality(quality), ffi::chroma_sampling(ffi::HALVED_CHROMA)];
    ffi::compress(rgb, width, height, &settings)
        .map_err(|message| Error::invalid(format!("JPEG encoder: {message}")))
}
