//! Resizes decoded pixels to the target size: antialiased, with the filters of Pillow and torchvision.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod decoded;
mod part;
#[cfg(target_arch = "x86_64")]
mod source;
mod target;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod weights;

use fast_image_resize as fir;
use forebay_base::{Error, ErrorKind, Result};

use super::depth::Depth;
use super::finish::mirror_in_place;
use super::geometry::{Mirror, Rect, Sampling};
use super::spec::{LUMA, Resampling, Size};
pub(super) use decoded::Decoded;
use part::Part;
pub(super) use part::reduced;
use target::ResizeTarget;
pub(super) use target::STRIP_ROWS;

/// A thread's memory for resizing: intermediate rows and the weights of the filter.
#[derive(Default)]
pub(super) struct Resampler {
    library: fir::Resizer,
    #[cfg(target_arch = "x86_64")]
    avx512: avx512::Avx512,
    #[cfg(target_arch = "x86_64")]
    avx2: avx2::Avx2,
}

impl Resampler {
    /// Resizes the box of `sampling` to `size`, mirrors it, and writes it to `target` as interleaved levels.
    /// A box of whole pixels that already has this size is copied.
    pub(super) fn resample(
        &mut self,
        decoded: Decoded<'_>,
        sampling: &Sampling,
        size: Size,
        mirror: Mirror,
        target: &mut [u8],
    ) -> Result<()> {
        if self.in_registers(decoded, sampling, size, mirror, ResizeTarget::Whole(target)) {
            return Ok(());
        }
        let view = reduced(sampling.view, decoded.reduction);
        let part = Part::covering(sampling, decoded.reduction, view);
        self.with_library(decoded, view, part, size, sampling.resampling, target)?;
        mirror_in_place(mirror, target, size, decoded.pixel_bytes());
        Ok(())
    }

    /// Works like [`resample`](Self::resample), but passes rows to `write` as soon as they are made. `write`
    /// gets the index of the first row, and up to [`STRIP_ROWS`] rows in the memory of `strip`. Returns
    /// false, and leaves the target unchanged, for samplings that need the whole target in memory.
    pub(super) fn resample_in_strips(
        &mut self,
        decoded: Decoded<'_>,
        sampling: &Sampling,
        size: Size,
        mirror: Mirror,
        strip: &mut [u8],
        write: &mut dyn FnMut(usize, &[u8]),
    ) -> bool {
        self.in_registers(decoded, sampling, size, mirror, ResizeTarget::Strips { strip, write })
    }

    /// Resizes with AVX-512 or AVX2. Returns false, and leaves the target unchanged, if the machine has
    /// neither or they do not support the sampling.
    #[cfg(target_arch = "x86_64")]
    fn in_registers(
        &mut self,
        decoded: Decoded<'_>,
        sampling: &Sampling,
        size: Size,
        mirror: Mirror,
        mut target: ResizeTarget<'_>,
    ) -> bool {
        let view = reduced(sampling.view, decoded.reduction);
        let part = Part::covering(sampling, decoded.reduction, view);
        sampling.resampling == Resampling::Bilinear
            && (self.avx512.resize(decoded, view, part, size, mirror, &mut target)
                || self.avx2.resize(decoded, view, part, size, mirror, &mut target))
    }

    /// Processors other than x86-64 have neither AVX-512 nor AVX2.
    #[cfg(not(target_arch = "x86_64"))]
    fn in_registers(
        &mut self,
        _: Decoded<'_>,
        _: &Sampling,
        _: Size,
        _: Mirror,
        _: ResizeTarget<'_>,
    ) -> bool {
        false
    }

    /// Works like [`resample`](Self::resample) with the library `fast_image_resize`, which supports all
    /// pixels and machines, but without mirroring.
    fn with_library(
        &mut self,
        decoded: Decoded<'_>,
        view: Rect,
        part: Part,
        size: Size,
        resampling: Resampling,
        target: &mut [u8],
    ) -> Result<()> {
        let filter = match resampling {
            Resampling::Bilinear => fir::FilterType::Bilinear,
            Resampling::Bicubic => fir::FilterType::CatmullRom,
            Resampling::Lanczos => fir::FilterType::Lanczos3,
        };
        let options = fir::ResizeOptions::new().resize_alg(fir::ResizeAlg::Convolution(filter)).crop(
            part.left,
            part.top,
            part.width,
            part.height,
        );
        match (decoded.depth, decoded.channels) {
            (Depth::Eight, LUMA) => {
                self.with_pixels::<fir::pixels::U8>(decoded, view, size, &options, target)
            }
            (Depth::Eight, _) => self.with_pixels::<fir::pixels::U8x3>(decoded, view, size, &options, target),
            (Depth::Sixteen, LUMA) => {
                self.with_pixels::<fir::pixels::U16>(decoded, view, size, &options, target)
            }
            (Depth::Sixteen, _) => {
                self.with_pixels::<fir::pixels::U16x3>(decoded, view, size, &options, target)
            }
        }
    }

    /// Resizes pixels of one type. The library's function for all types would put its code for those that are
    /// not decoded into each program.
    fn with_pixels<P: fir::PixelTrait>(
        &mut self,
        decoded: Decoded<'_>,
        view: Rect,
        size: Size,
        options: &fir::ResizeOptions,
        target: &mut [u8],
    ) -> Result<()> {
        let rect = decoded.rect;
        let source = fir::images::TypedImageRef::<P>::from_buffer(rect.width, rect.height, decoded.pixels)
            .map_err(internal)?;
        let mut target =
            fir::images::TypedImage::<P>::from_buffer(size.width, size.height, target).map_err(internal)?;
        let (x, y) = (view.x - rect.x, view.y - rect.y);
        let cropped =
            fir::images::TypedCroppedImage::new(source, x, y, view.width, view.height).map_err(internal)?;
        self.library.resize_typed(&cropped, &mut target, options).map_err(internal)
    }

    /// The number of bytes that this value keeps allocated between two images.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = self.library.size_of_internal_buffers() as u64;
        #[cfg(target_arch = "x86_64")]
        let bytes = bytes + self.avx512.bytes() + self.avx2.bytes();
        bytes
    }
}

/// The size in bytes of one weight of the filter. Each weight is held twice: as it is computed (a float), and
/// as it is used (an integer).
const WEIGHT: u64 = (size_of::<f64>() + size_of::<i16>()) as u64;
/// The size in bytes of one weight, for levels of 16 bits.
const WIDE_WEIGHT: u64 = (size_of::<f64>() + size_of::<i32>()) as u64;
/// The bytes that a target pixel takes along one axis in addition to its weights.
const WEIGHTS_HEAD: u64 = 64;

/// The number of target pixels whose weights are computed together.
#[cfg(target_arch = "x86_64")]
const WEIGHED_TOGETHER: u64 = weights::GROUP as u64;
#[cfg(not(target_arch = "x86_64"))]
const WEIGHED_TOGETHER: u64 = 1;

/// The most bytes that [`Resampler::resample`] needs: for intermediate rows, which have the target's height
/// and the source's width, and for the weights of the filter.
pub(super) fn resampling_bytes(
    sampling: &Sampling,
    reduction: u32,
    size: Size,
    channels: usize,
    depth: Depth,
) -> u64 {
    let weight = match depth {
        Depth::Eight => WEIGHT,
        Depth::Sixteen => WIDE_WEIGHT,
    };
    let view = reduced(sampling.view, reduction);
    let between = u64::from(view.width) * u64::from(size.height);
    let weights = |from: u32, to: u32| {
        // On each side of its centre, the filter covers the source pixels of `reach` target pixels.
        let reached = 2 * u64::from(from.div_ceil(to).max(1) * sampling.resampling.reach()) + 1;
        u64::from(to).next_multiple_of(WEIGHED_TOGETHER) * (reached * weight + WEIGHTS_HEAD)
    };
    let weights = weights(view.width, size.width) + weights(view.height, size.height);
    let bytes = between.saturating_mul((channels * depth.bytes()) as u64).saturating_add(weights);
    #[cfg(target_arch = "x86_64")]
    let bytes = {
        let row = u64::from(size.width) * channels as u64;
        bytes.saturating_add(avx512::Avx512::lane_bytes(row) + avx2::Avx2::lane_bytes(row))
    };
    bytes
}

fn internal(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Internal, format!("resize: {error}"))
}
