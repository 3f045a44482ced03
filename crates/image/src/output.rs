//! Turns decoded pixels into the content of a slot of a batch: applies the orientation, crops and resizes,
//! and converts to the slot's number type and layout.

use forebay_base::Result;
use image::metadata::Orientation;

use super::border::copy;
use super::buffer::Buffer;
use super::canvas::spread_image;
use super::depth::Depth;
use super::effects::{EffectScratch, effect_bytes};
use super::finish::{Finisher, is_plain, mirror_in_place};
use super::frame::Frame;
use super::geometry::{Mirror, Rect};
use super::pixels::{orient, transposes};
use super::repeat::Repeat;
use super::resample::{Decoded, Resampler, STRIP_ROWS, resampling_bytes};
use super::rotation::Turn;
use super::shown::Shown;
use super::spec::{Image, Size};

/// A thread's buffers for the pixels of an image, in the order in which the pixels pass through the buffers.
#[derive(Default)]
pub(super) struct Stages {
    /// Decoded pixels.
    pub(super) pixels: Buffer,
    /// The decoded pixels after EXIF's orientation was applied, or scratch memory for drawing polygons.
    pub(super) second: Buffer,
    pub(super) output: Output,
}

impl Stages {
    /// The number of bytes that the buffers keep allocated between two images.
    pub(super) fn bytes(&self) -> u64 {
        self.pixels.bytes() + self.second.bytes() + self.output.bytes()
    }

    /// Fills the slots from an image whose decoded pixels are all in `self.pixels`, as RGB or luma.
    pub(super) fn fill_from_whole(
        &mut self,
        channels: usize,
        whole: Whole,
        shown: &mut [Shown<'_>],
    ) -> Result<()> {
        let Whole { mut rect, orientation, depth } = whole;
        let pixel = channels * depth.bytes();
        let mut pixels = self.pixels.get(rect.width as usize * rect.height as usize * pixel);
        if orientation != Orientation::NoTransforms {
            let turned = self.second.take(pixels.len());
            let (width, height) = orient(pixels, rect, pixel, orientation, turned);
            (pixels, rect) = (turned, Rect::whole(width, height));
        }
        let frames = Shown::frames(shown, rect.width, rect.height);
        self.output.fill_each(Decoded { pixels, rect, reduction: 1, channels, depth }, &frames, shown)
    }
}

/// An image that was decoded as a whole, before EXIF's orientation is applied.
#[derive(Clone, Copy)]
pub(super) struct Whole {
    /// The rectangle of the whole image before its orientation is applied.
    pub(super) rect: Rect,
    /// The orientation in which the image is shown.
    pub(super) orientation: Orientation,
    pub(super) depth: Depth,
}

/// A thread's state for the stages after decoding.
#[derive(Default)]
pub(super) struct Output {
    resampler: Resampler,
    finisher: Finisher,
    /// Pixels at the target size, if they are then converted to another type or layout, or rotated.
    target: Buffer,
    /// The pixels of a crop that extends beyond the image, whose padding repeats pixels of the image.
    padded: Buffer,
    effects: EffectScratch,
}

impl Output {
    /// Works like [`fill`](Self::fill), for several views (crops or sizes) that are made from the same
    /// decoded pixels.
    pub(super) fn fill_each(
        &mut self,
        decoded: Decoded<'_>,
        frames: &[Frame],
        shown: &mut [Shown<'_>],
    ) -> Result<()> {
        let mut each = frames.iter().zip(shown);
        each.try_for_each(|(frame, shown)| self.fill(shown.image, decoded, frame, shown.slot))
    }

    /// Crops and resizes `decoded` as `frame` says, and writes the result into the slot.
    pub(super) fn fill(
        &mut self,
        image: &Image,
        decoded: Decoded<'_>,
        frame: &Frame,
        slot: &mut [u8],
    ) -> Result<()> {
        frame.effects.check(frame.target)?;
        if decoded.depth == Depth::Sixteen {
            image.validate_depth()?;
        }
        if let Some(repeat) = frame.padding {
            return self.fill_padded(image, decoded, frame, repeat, slot);
        }
        if frame.target == image.size() {
            return self.fill_all(image, decoded, frame, slot);
        }
        let shown = image.of_size(frame.target);
        self.fill_all(&shown, decoded, frame, &mut slot[..shown.bytes_per_image()])?;
        if !image.is_ragged() {
            spread_image(image, frame.target, frame.corner, slot);
        }
        Ok(())
    }

    /// Works like [`fill`](Self::fill), for a crop whose padding repeats pixels of the image.
    fn fill_padded(
        &mut self,
        image: &Image,
        decoded: Decoded<'_>,
        frame: &Frame,
        repeat: Repeat,
        slot: &mut [u8],
    ) -> Result<()> {
        let mut padded = std::mem::take(&mut self.padded);
        let pixels = padded.take(bytes_of_padded(frame, decoded.pixel_bytes()));
        copy(decoded, frame, repeat, pixels);
        let whole = Rect::whole(frame.target.width, frame.target.height);
        let filled =
            self.fill_all(image, Decoded { pixels, rect: whole, ..decoded }, &frame.of_shown(), slot);
        self.padded = padded;
        filled
    }

    /// Works like [`fill`](Self::fill), for an image that covers its whole slot. Plain bytes are resized
    /// directly into the slot, and other number types and layouts take a second pass.
    fn fill_all(
        &mut self,
        image: &Image,
        decoded: Decoded<'_>,
        frame: &Frame,
        slot: &mut [u8],
    ) -> Result<()> {
        let size = image.size();
        if let Some(turn) = &frame.turn {
            self.fill_turned(image, decoded, frame, turn, slot)?;
        } else if is_plain(image) {
            self.resampler.resample(decoded, &frame.sampling, size, frame.mirror, slot)?;
            frame.effects.apply(slot, size, decoded.channels, &mut self.effects);
        } else {
            self.fill_in_form(image, decoded, frame, slot)?;
        }
        if let Some(erased) = &frame.effects.erased {
            erased.fill(image, slot);
        }
        Ok(())
    }

    /// Works like [`fill`](Self::fill), for a slot with another number type or layout than the decoded bytes.
    fn fill_in_form(
        &mut self,
        image: &Image,
        decoded: Decoded<'_>,
        frame: &Frame,
        slot: &mut [u8],
    ) -> Result<()> {
        let Output { resampler, finisher, target, effects, .. } = self;
        let (size, mirror) = (image.size(), frame.mirror);
        let (width, height) = (size.width as usize, size.height as usize);
        let row = width * decoded.pixel_bytes();
        if frame.effects.keep_pixels() {
            if let Some(pixels) = decoded.shown_whole(&frame.sampling, size)
                && mirror == Mirror::default()
            {
                finisher.finish(image, 0, pixels, decoded.depth, slot);
                return Ok(());
            }
            let strip = target.take(row * STRIP_ROWS.min(height));
            let mut write = |first, pixels: &[u8]| {
                finisher.finish(image, first * width, pixels, decoded.depth, slot);
            };
            if resampler.resample_in_strips(decoded, &frame.sampling, size, mirror, strip, &mut write) {
                return Ok(());
            }
        }
        let target = target.take(row * height);
        resampler.resample(decoded, &frame.sampling, size, Mirror::default(), target)?;
        if decoded.depth == Depth::Eight {
            frame.effects.apply(target, size, decoded.channels, effects);
        }
        mirror_in_place(mirror, target, size, decoded.pixel_bytes());
        finisher.finish(image, 0, target, decoded.depth, slot);
        Ok(())
    }

    /// Works like [`fill`](Self::fill), for an image that is rotated after it was resized.
    fn fill_turned(
        &mut self,
        image: &Image,
        decoded: Decoded<'_>,
        frame: &Frame,
        turn: &Turn,
        slot: &mut [u8],
    ) -> Result<()> {
        let (size, channels, depth) = (image.size(), decoded.channels, decoded.depth);
        let bytes = size.width as usize * size.height as usize * decoded.pixel_bytes();
        let target = self.target.take(bytes);
        self.resampler.resample(decoded, &frame.sampling, size, frame.mirror, target)?;
        // The slot has room for the rotated pixels, because every other number type takes at least as many
        // bytes.
        turn.pixels(target, size, channels, depth, &mut slot[..bytes]);
        if depth == Depth::Eight {
            frame.effects.apply(&mut slot[..bytes], size, channels, &mut self.effects);
        }
        if !is_plain(image) {
            target.copy_from_slice(&slot[..bytes]);
            self.finisher.finish(image, 0, target, depth, slot);
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.resampler.bytes() + self.target.bytes() + self.padded.bytes() + self.effects.bytes()
    }
}

/// The slot into which the pixels of `rect` can be decoded directly. There is one if a single view shows them
/// in their own size, unchanged and as plain bytes.
pub(super) fn slot_of_decoded<'a>(
    shown: &'a mut [Shown<'_>],
    frames: &[Frame],
    rect: Rect,
) -> Option<&'a mut [u8]> {
    let ([Shown { image, slot, .. }], [frame]) = (shown, frames) else { return None };
    let size = Size { height: rect.height, width: rect.width };
    let is_filled = frame.target == size && (image.size() == size || image.is_ragged());
    if !is_filled || !is_plain(image) || !frame.keeps(rect) {
        return None;
    }
    slot.get_mut(..size.width as usize * size.height as usize * image.channels())
}

/// The most bytes that the stages after decoding need, for an image that was decoded as a whole.
pub(super) fn bytes_after(channels: usize, whole: Whole, shown: &[Shown<'_>]) -> u64 {
    let Whole { rect: Rect { width, height, .. }, orientation, depth } = whole;
    let (width, height) = if transposes(orientation) { (height, width) } else { (width, height) };
    let pixels = u64::from(width) * u64::from(height) * (channels * depth.bytes()) as u64;
    let turned = if orientation == Orientation::NoTransforms { 0 } else { pixels };
    turned.saturating_add(bytes_of_fills(shown, &Shown::frames(shown, width, height), 1, depth))
}

/// The most bytes that [`Output::fill_each`] needs. The views are made one after another, so the one that
/// needs most decides.
pub(super) fn bytes_of_fills(shown: &[Shown<'_>], frames: &[Frame], reduction: u32, depth: Depth) -> u64 {
    let each = shown.iter().zip(frames);
    each.map(|(shown, frame)| bytes_of_fill(shown.image, frame, reduction, depth)).max().unwrap_or(0)
}

/// The most bytes that [`Output::fill`] needs for an image that was decoded at 1/`reduction` of its scale, in
/// this depth.
pub(super) fn bytes_of_fill(image: &Image, frame: &Frame, reduction: u32, depth: Depth) -> u64 {
    let Size { height, width } = frame.target;
    let target = match is_plain(image) && frame.turn.is_none() {
        true => 0,
        false => u64::from(width) * u64::from(height) * (image.channels() * depth.bytes()) as u64,
    };
    let padded = match frame.padding {
        Some(_) => bytes_of_padded(frame, image.channels() * depth.bytes()) as u64,
        None => 0,
    };
    resampling_bytes(&frame.sampling, reduction, frame.target, image.channels(), depth)
        .saturating_add(target)
        .saturating_add(padded)
        .saturating_add(effect_bytes(image))
}

/// The number of bytes of a crop with its padding, if a pixel has `pixel` bytes.
fn bytes_of_padded(frame: &Frame, pixel: usize) -> usize {
    frame.target.width as usize * frame.target.height as usize * pixel
}
