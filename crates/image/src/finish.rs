//! The last step: normalises and converts pixels of the target size, and writes them into the slot.
//!
//! A channel of 8 bits has 256 values, so normalising and rounding are a single look-up, which is exact in
//! every number type. Where vector instructions give the same results, they take the place of the look-up.
//! Channels of 16 bits are always computed.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod group;
mod registers;
mod table;
#[cfg(test)]
mod tests;
mod values;

use super::depth::Depth;
use super::geometry::Mirror;
use super::pixel_type::{Layout, PixelType};
use super::spec::{Image, LUMA, RGB, Size};
use table::ValueTable;
use values::FinishKey;

/// The bytes of a grey pixel of 8 bits.
const GREY: usize = LUMA * Depth::Eight.bytes();
const WIDE_GREY: usize = LUMA * Depth::Sixteen.bytes();
const COLOUR: usize = RGB * Depth::Eight.bytes();
const WIDE_COLOUR: usize = RGB * Depth::Sixteen.bytes();

/// Whether pixels at the target size already are the content of the slot, except for flips.
pub(super) fn is_plain(image: &Image) -> bool {
    image.pixel_type() == PixelType::U8 && (image.pixel_layout() == Layout::Nhwc || image.channels() == LUMA)
}

/// Mirrors interleaved pixels of `pixel` bytes, in place.
pub(super) fn mirror_in_place(mirror: Mirror, pixels: &mut [u8], size: Size, pixel: usize) {
    let row = size.width as usize * pixel;
    if mirror.down {
        let (upper, lower) = pixels.split_at_mut(size.height as usize / 2 * row);
        let (upper, lower) = (upper.chunks_exact_mut(row), lower.chunks_exact_mut(row).rev());
        upper.zip(lower).for_each(|(upper, lower)| upper.swap_with_slice(lower));
    }
    if !mirror.across {
        return;
    }
    for row in pixels.chunks_exact_mut(row) {
        match pixel {
            GREY => row.reverse(),
            WIDE_GREY => row.as_chunks_mut::<WIDE_GREY>().0.reverse(),
            WIDE_COLOUR => row.as_chunks_mut::<WIDE_COLOUR>().0.reverse(),
            _ => row.as_chunks_mut::<COLOUR>().0.reverse(),
        }
    }
}

/// A thread's table of the results for all levels, which is reused while images have the same properties.
#[derive(Default)]
pub(super) struct Finisher(Option<ValueTable>);

impl Finisher {
    /// Writes interleaved pixels at the target size, whose levels have this depth, into the slot, from the
    /// pixel `first` of the image on.
    pub(super) fn finish(
        &mut self,
        image: &Image,
        first: usize,
        (pixels, depth): (&[u8], Depth),
        slot: &mut [u8],
    ) {
        let Size { height, width } = image.size();
        let place = (first, height as usize * width as usize);
        let key = FinishKey {
            pixel_type: image.pixel_type(),
            normalize: image.normalize,
            layout: image.pixel_layout(),
            channels: image.channels(),
        };
        if depth == Depth::Sixteen {
            return key.write_wide(place, pixels, slot);
        }
        let table = self.0.take_if(|table| table.is_for(key)).unwrap_or_else(|| ValueTable::of(key));
        self.0.insert(table).write(place, pixels, slot);
    }
}
