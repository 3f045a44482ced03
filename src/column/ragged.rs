//! Columns of images that keep their own sizes: each image is a list of rows, and each row a list of pixels.
//!
//! While a batch is made, each image has a slot: a piece of the batch's buffer that has room for the largest
//! image, followed by the height and width of the image it holds. When all slots are filled, [`pack`] moves
//! the images together in the same memory, so that their pixels follow each other without gaps.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_arrow::array::{ArrayData, ArrayRef, FixedSizeListArray, LargeListArray, make_array};
use forebay_arrow::buffer::{Buffer, OffsetBuffer};
use forebay_arrow::datatypes::{DataType, Field};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};
use forebay_image::{Image, Size};

/// The key and the value in a field's metadata that mark a column of images that keep their own sizes.
pub(super) const KIND: &str = "forebay:kind";
pub(super) const IMAGES: &str = "images";

/// The number of bytes at the end of a slot that hold height and width.
pub(super) const SIZE_BYTES: usize = 2 * size_of::<u32>();

/// The field of a column of images whose channels have the type `item`.
pub(super) fn images_field(name: &str, image: &Image, item: Field) -> Field {
    let pixel = DataType::FixedSizeList(
        Arc::new(Field::new("item", item.data_type().clone(), false)),
        image.channels() as i32,
    );
    let pixel = Field::new("item", pixel, false).with_metadata(item.metadata().clone());
    let row = Field::new("item", DataType::LargeList(Arc::new(pixel)), false);
    let kind = HashMap::from([(KIND.to_string(), IMAGES.to_string())]);
    Field::new(name, DataType::LargeList(Arc::new(row)), false).with_metadata(kind)
}

/// Writes the size of an image at the end of its slot.
pub(super) fn write_size(to: &mut [u8], Size { height, width }: Size) {
    to.copy_from_slice([height, width].map(u32::to_ne_bytes).as_flattened());
}

/// Moves the images together at the front of the buffer, without the gaps between their slots, and returns
/// their sizes.
pub(super) fn pack(slots: &mut [u8], slot: usize, pixel: usize) -> Result<Vec<Size>> {
    let (mut sizes, mut end) = (Vec::with_capacity(slots.len() / slot), 0);
    for start in (0..slots.len()).step_by(slot) {
        let written = slots.get(start + slot - SIZE_BYTES..start + slot).unwrap_or_default();
        let [height, width] = match written.as_chunks::<{ size_of::<u32>() }>().0 {
            [height, width] => [height, width].map(|side| u32::from_ne_bytes(*side)),
            _ => return Err(broken()),
        };
        let bytes = (height as usize).checked_mul(width as usize).and_then(|count| count.checked_mul(pixel));
        let bytes = bytes.filter(|bytes| *bytes <= slot - SIZE_BYTES).ok_or_else(broken)?;
        slots.copy_within(start..start + bytes, end);
        end += bytes;
        sizes.push(Size { height, width });
    }
    Ok(sizes)
}

/// Makes the column of a [field of images](images_field) from the pixels in `buffer`, for images of these
/// sizes.
pub(crate) fn images(field: &Field, buffer: Buffer, sizes: &[Size]) -> Result<ArrayRef> {
    let DataType::LargeList(row) = field.data_type() else { return Err(broken()) };
    let DataType::LargeList(pixel) = row.data_type() else { return Err(broken()) };
    let DataType::FixedSizeList(item, channels) = pixel.data_type() else { return Err(broken()) };
    let rows = OffsetBuffer::<i64>::from_lengths(sizes.iter().map(|size| size.height as usize));
    let widths = sizes.iter().flat_map(|size| std::iter::repeat_n(size.width as usize, size.height as usize));
    let pixels = OffsetBuffer::<i64>::from_lengths(widths);
    let count = usize::try_from(pixels.last()).unwrap_or_default() * *channels as usize;
    let values = ArrayData::builder(item.data_type().clone()).len(count).add_buffer(buffer);
    // The buffer was allocated for bytes, so it may not be aligned for the type of the numbers. If it is not,
    // `align_buffers` copies it to one that is.
    let values = make_array(values.align_buffers(true).build().or_fail()?);
    let values = Arc::new(FixedSizeListArray::try_new(item.clone(), *channels, values, None).or_fail()?);
    let values = Arc::new(LargeListArray::try_new(pixel.clone(), pixels, values, None).or_fail()?);
    Ok(Arc::new(LargeListArray::try_new(row.clone(), rows, values, None).or_fail()?))
}

fn broken() -> Error {
    Error::new(ErrorKind::Internal, "slots of a column that are no images of their own sizes")
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{Array, AsArray};
    use forebay_arrow::datatypes::UInt8Type;

    use super::*;

    #[test]
    fn images_move_together() {
        let image = Image::fit((2, 3)).ragged().grayscale();
        let slot = image.bytes_per_image() + SIZE_BYTES;
        let mut slots = vec![99; 3 * slot];
        for (at, (height, width)) in [(2, 1), (1, 3), (2, 3)].into_iter().enumerate() {
            let slot = &mut slots[at * slot..(at + 1) * slot];
            slot[..height as usize * width as usize].fill(at as u8);
            write_size(&mut slot[6..], Size { height, width });
        }
        let sizes = pack(&mut slots, slot, 1).unwrap();
        assert_eq!(
            sizes.iter().map(|size| (size.height, size.width)).collect::<Vec<_>>(),
            [(2, 1), (1, 3), (2, 3)]
        );
        assert_eq!(slots[..11], [0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
        let field = images_field("image", &image, Field::new("item", DataType::UInt8, false));
        let column = images(&field, Buffer::from(slots), &sizes).unwrap();
        assert_eq!((column.data_type(), column.len()), (field.data_type(), 3));
        let rows = column.as_list::<i64>();
        assert_eq!(rows.value_offsets(), [0, 2, 3, 5]);
        let pixels = rows.values().as_list::<i64>();
        assert_eq!(pixels.value_offsets(), [0, 1, 2, 5, 8, 11]);
        assert_eq!(pixels.values().as_fixed_size_list().values().as_primitive::<UInt8Type>().len(), 11);
    }

    #[test]
    fn a_size_beyond_its_slot_is_an_error() {
        let mut slots = [0; 6 + SIZE_BYTES];
        write_size(&mut slots[6..], Size { height: u32::MAX, width: u32::MAX });
        assert!(pack(&mut slots, 6 + SIZE_BYTES, 3).is_err());
        write_size(&mut slots[6..], Size { height: 1, width: 3 });
        assert!(pack(&mut slots, 6 + SIZE_BYTES, 3).is_err());
    }
}
