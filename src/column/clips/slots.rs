//! Writes images into the slot of a clip (its memory in a batch) with channels before images, and moves clips
//! of different lengths together.

use std::sync::Arc;

use forebay_arrow::array::{ArrayRef, LargeListArray};
use forebay_arrow::buffer::{Buffer, OffsetBuffer};
use forebay_arrow::datatypes::{DataType, Field};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};

use crate::column::tensor;

/// The number of bytes at the end of a slot that hold the clip's number of images, if clips have different
/// lengths.
pub(super) const COUNT_BYTES: usize = size_of::<u64>();

/// Copies image `at` of `frames` into a slot in which each channel has all its images before the next channel
/// begins.
pub(super) fn spread(image: &[u8], at: usize, frames: usize, channels: usize, slot: &mut [u8]) {
    let plane = image.len() / channels;
    for (channel, from) in image.chunks_exact(plane).enumerate() {
        slot[(channel * frames + at) * plane..][..plane].copy_from_slice(from);
    }
}

/// Writes the number of images at the end of a slot.
pub(super) fn write_count(slot: &mut [u8], count: usize) {
    let end = slot.len() - COUNT_BYTES;
    slot[end..].copy_from_slice(&(count as u64).to_ne_bytes());
}

/// Moves the clips to the front of the buffer, without the gaps between them. Returns the number of images of
/// each clip.
pub(super) fn pack(slots: &mut [u8], slot: usize, image: usize) -> Result<Vec<usize>> {
    let (mut counts, mut end) = (Vec::with_capacity(slots.len() / slot), 0);
    for start in (0..slots.len()).step_by(slot) {
        let written = slots[start..start + slot].last_chunk::<COUNT_BYTES>();
        let count =
            written.map(|count| u64::from_ne_bytes(*count)).and_then(|count| usize::try_from(count).ok());
        let bytes =
            count.and_then(|count| count.checked_mul(image)).filter(|bytes| bytes + COUNT_BYTES <= slot);
        let bytes = bytes.ok_or_else(broken)?;
        slots.copy_within(start..start + bytes, end);
        end += bytes;
        counts.push(bytes / image);
    }
    Ok(counts)
}

/// Makes a column of clips from consecutive images in `buffer`. `counts` has the number of images of each
/// clip.
pub(crate) fn clips(field: &Field, buffer: Buffer, counts: &[usize]) -> Result<ArrayRef> {
    let DataType::LargeList(image) = field.data_type() else { return Err(broken()) };
    let images = tensor(image, buffer, counts.iter().sum())?;
    let offsets = OffsetBuffer::<i64>::from_lengths(counts.iter().copied());
    Ok(Arc::new(LargeListArray::try_new(image.clone(), offsets, images, None).or_fail()?))
}

fn broken() -> Error {
    Error::new(ErrorKind::Internal, "slots of a column that are no clips")
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{Array, AsArray};
    use forebay_arrow::datatypes::UInt8Type;

    use super::*;
    use crate::column::tensor_field;

    #[test]
    fn channels_come_before_images() {
        let mut slot = [0; 12];
        spread(&[1, 2, 3, 4], 0, 3, 2, &mut slot);
        spread(&[5, 6, 7, 8], 2, 3, 2, &mut slot);
        assert_eq!(slot, [1, 2, 0, 0, 5, 6, 3, 4, 0, 0, 7, 8]);
    }

    #[test]
    fn clips_move_together_and_a_count_beyond_the_slot_is_an_error() {
        let slot = 3 * 2 + COUNT_BYTES;
        let mut slots = vec![99; 4 * slot];
        for (at, count) in [2, 0, 3, 1].into_iter().enumerate() {
            let slot = &mut slots[at * slot..(at + 1) * slot];
            slot[..2 * count].fill(at as u8);
            write_count(slot, count);
        }
        let counts = pack(&mut slots, slot, 2).unwrap();
        assert_eq!(
            (&counts[..], &slots[..12]),
            (&[2, 0, 3, 1][..], &[0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 3, 3][..])
        );
        let image = tensor_field("item", &[2], DataType::UInt8).unwrap();
        let field = Field::new("clip", DataType::LargeList(Arc::new(image)), false);
        let column = clips(&field, Buffer::from(slots), &counts).unwrap();
        assert_eq!((column.data_type(), column.len()), (field.data_type(), 4));
        assert_eq!(column.as_list::<i64>().value_offsets(), [0, 2, 2, 5, 6]);
        let values = column.as_list::<i64>().values().as_fixed_size_list().values().clone();
        assert_eq!(values.as_primitive::<UInt8Type>().len(), 12);
        let mut slots = vec![0; slot];
        write_count(&mut slots, 4);
        assert!(pack(&mut slots, slot, 2).is_err());
    }
}
