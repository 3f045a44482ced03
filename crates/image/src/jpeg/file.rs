//! Reads JPEG files: their headers, and their pixels, which are written into slots.

use forebay_base::{Error, Result};
use image::metadata::Orientation;

use super::super::buffer::Buffer;
use super::super::depth::Depth;
use super::super::format::{Format, Header};
use super::super::frame::Frame;
use super::super::output::{Stages, Whole, bytes_after, bytes_of_fills, slot_of_decoded};
use super::super::refuse::{bad_row, check_size};
use super::super::resample::Decoded;
use super::super::shown::Shown;
use super::super::spec::Image;
use super::super::workspace::Workspace;
use super::decoder::{Decoder, bytes_of, check_structure, needed};
use super::ffi::{self, Stored};
use super::markers::Markers;
use super::region::ReducedRegion;
use super::{damage, repair};

impl Decoder {
    /// Decodes a JPEG once for all views in `shown`, and writes each view's pixels into its slot. All views
    /// have the same settings for reading a file as `image`.
    pub(crate) fn decode_into(
        &mut self,
        image: &Image,
        encoded: &[u8],
        shown: &mut [Shown<'_>],
        stages: &mut Stages,
        workspace: &Workspace,
    ) -> Result<()> {
        match self.decode_strictly(image, encoded, shown, stages, workspace) {
            Err(Failure::Codec(message)) if damage::is_harmless_in_header(&message) => {
                let clean = repair::without_oddities(encoded).ok_or_else(|| damage::error(&message))?;
                self.decode_strictly(image, &clean, shown, stages, workspace).map_err(Failure::into_error)
            }
            other => other.map_err(Failure::into_error),
        }
    }

    /// Decodes like [`decode_into`](Self::decode_into), but fails at the first warning of libjpeg-turbo.
    fn decode_strictly(
        &mut self,
        image: &Image,
        encoded: &[u8],
        shown: &mut [Shown<'_>],
        stages: &mut Stages,
        workspace: &Workspace,
    ) -> Result<(), Failure> {
        let markers = Markers::read(encoded).ok_or_else(|| bad_row("corrupt JPEG: no scan"))?;
        if let Some((width, height)) = markers.size {
            check_size(width, height, image.max_pixels)?;
        }
        check_structure(&markers, encoded)?;
        let opened = self.open(encoded, &markers, image.max_pixels)?;
        let info = opened.info();
        check_size(info.width, info.height, image.max_pixels)?;

        let channels = image.channels();
        let scans = if markers.one_scan() { 0 } else { markers.coefficients() };
        let orientation =
            if image.exif_orientation { markers.orientation() } else { Orientation::NoTransforms };
        if orientation != Orientation::NoTransforms {
            let part = ReducedRegion::whole(&info);
            let whole = Whole { rect: part.rect, orientation, depth: Depth::Eight };
            let needed = needed(&info, &part, scans, channels) + bytes_after(channels, whole, shown);
            let _taken = workspace.take(needed, || named(&info, &markers))?;
            let out = stages.pixels.take(bytes_of(&info, &part, channels));
            if self.decode_own(&opened, &part, &markers, channels, out) {
                self.idle = Some(opened.close());
            } else {
                self.decode_with_library(opened, &part, &markers, channels, out)?;
            }
            return Ok(stages.fill_from_whole(channels, whole, shown)?);
        }
        let frames = Shown::frames(shown, info.width, info.height);
        let needed = |part: &ReducedRegion, shown: &[Shown<'_>]| {
            let after = bytes_of_fills(shown, &frames, part.reduction, Depth::Eight);
            needed(&info, part, scans, channels) + after
        };
        let croppable = info.mcu_width == Some(markers.mcu_width()) && info.stored != Stored::Cmyk;
        let in_part = croppable && (markers.progressive || markers.one_scan() && info.sequential);
        let mut part = match in_part {
            true => ReducedRegion::covering(&info, &frames),
            false => ReducedRegion::whole(&info),
        };
        let mut taken = workspace.take(needed(&part, shown), || named(&info, &markers))?;
        let bytes = bytes_of(&info, &part, channels);
        let mut out = Destination::choose(&part, bytes, &mut *shown, &frames, &mut stages.pixels);
        if self.decode_own(&opened, &part, &markers, channels, out.bytes()) {
            self.idle = Some(opened.close());
        } else {
            if markers.progressive && in_part {
                drop(taken);
                part = ReducedRegion::whole(&info);
                taken = workspace.take(needed(&part, shown), || named(&info, &markers))?;
            }
            let bytes = bytes_of(&info, &part, channels);
            out = Destination::choose(&part, bytes, &mut *shown, &frames, &mut stages.pixels);
            self.decode_with_library(opened, &part, &markers, channels, out.bytes())?;
        }
        if let Destination::Slot(_) = out {
            return Ok(());
        }
        let ReducedRegion { rect, reduction, .. } = part;
        let pixels = stages.pixels.get(rect.width as usize * rect.height as usize * channels);
        let decoded = Decoded { pixels, rect, reduction, channels, depth: Depth::Eight };
        let filled = stages.output.fill_each(decoded, &frames, shown);
        drop(taken);
        Ok(filled?)
    }
}

/// The memory into which the pixels of a part of the image are decoded.
enum Destination<'a> {
    /// The slot itself, if the image needs no change after it is decoded.
    Slot(&'a mut [u8]),
    /// A buffer, from which the pixels are resized into slots.
    Buffer(&'a mut [u8]),
}

impl<'a> Destination<'a> {
    /// Chooses the memory for the pixels of a part, which take this number of bytes.
    fn choose(
        part: &ReducedRegion,
        bytes: usize,
        shown: &'a mut [Shown<'_>],
        frames: &[Frame],
        pixels: &'a mut Buffer,
    ) -> Self {
        match slot_of_decoded(shown, frames, part.rect)
            .filter(|slot| part.reduction == 1 && slot.len() == bytes)
        {
            Some(slot) => Destination::Slot(slot),
            None => Destination::Buffer(pixels.take(bytes)),
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Destination::Slot(bytes) | Destination::Buffer(bytes) => bytes,
        }
    }
}

/// The reason why decoding failed: a message of libjpeg-turbo, or an error of this crate.
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

/// Reads the header of a JPEG.
pub(crate) fn probe(encoded: &[u8]) -> Result<Header> {
    let markers = Markers::read(encoded).ok_or_else(|| bad_row("corrupt JPEG: no scan"))?;
    let (width, height) = markers.size.ok_or_else(|| bad_row("corrupt JPEG: no frame header"))?;
    let progressive = !markers.one_scan();
    Ok(Header { format: Format::Jpeg, width, height, channels: markers.components, progressive })
}

/// Reads the orientation from a JPEG's EXIF data.
pub(crate) fn orientation(encoded: &[u8]) -> Result<Orientation> {
    Ok(Markers::read(encoded).ok_or_else(|| bad_row("corrupt JPEG: no scan"))?.orientation())
}

fn named(info: &ffi::Info, markers: &Markers<'_>) -> String {
    let kind = if markers.one_scan() { "JPEG" } else { "progressive JPEG" };
    format!("a {kind} of {}x{} pixels", info.width, info.height)
}
