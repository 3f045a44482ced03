//! The last step of decoding: normalises resized pixels, converts them to the number type of the result, and
//! writes them into the slot.
//!
//! A channel of 8 bits has 256 levels, so a table has the result for each level, exact in every number type.
//! Vector instructions are used instead of the table if they give the same results. Levels of 16 bits are
//! always computed.

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

/// The bytes of a pixel: grey or colour, with 8 bits or with 16 bits (wide).
const GREY: usize = LUMA * Depth::Eight.bytes();
const WIDE_GREY: usize = LUMA * Depth::Sixteen.bytes();
const COLOUR: usize = RGB * Depth::Eight.bytes();
const WIDE_COLOUR: usize = RGB * Depth::Sixteen.bytes();

/// Whether the resized pixels are the content of the slot without any conversion, except for flips.
pub(super) fn is_plain(image: &Image) -> bool {
    image.pixel_type() == PixelType::U8 && (image.pixel_layout() == Layout::Nhwc || image.channels() == LUMA)
}

/// Mirrors an image in place. Its interleaved pixels have `pixel` bytes each.
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

/// A thread's table with the result for each value (0 to 255) of an 8-bit sample. The table is kept until an
/// image needs another `FinishKey`: pixel type, normalisation, layout or number of channels.
#[derive(Default)]
pub(super) struct Finisher(Option<ValueTable>);

impl Finisher {
    /// Converts interleaved pixels of the resized image, whose levels have this depth, and writes them into
    /// the slot. The first of these pixels has the number `first` in the image.
    pub(super) fn finish(
        &mut self,
        image: &Image,
        first: usize,
        pixels: &[u8],
        depth: Depth,
        slot: &mut [u8],
    ) {
        let Size { height, width } = image.size();
        let count = height as usize * width as usize;
        let key = FinishKey {
            pixel_type: image.pixel_type(),
            normalize: image.normalize,
            layout: image.pixel_layout(),
            channels: image.channels(),
        };
        if depth == Depth::Sixteen {
            return key.write_wide(first, count, pixels, slot);
        }
        let table = self.0.take_if(|table| table.is_for(key)).unwrap_or_else(|| ValueTable::new(key));
        self.0.insert(table).write(first, count, pixels, slot);
    }
}
