//! Pads columns of lists that follow an image, such as boxes, to one length.

use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayData, ArrayRef, AsArray, FixedSizeListArray, make_array};
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_arrow::fail::OrFail;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Result};

use crate::batch::{Selection, value_bytes};
use crate::column::codec::after_making;
use crate::column::pad::PadCodec;
use crate::column::tensor::tensor_field;
use crate::column::{
    BadValue, FollowImage, FollowedRows, Gather, GatheredRows, Noun, Pad, PadMaskCodec, RowSize, tensor_shape,
};

/// Pads the lists that the codec `inner` delivers.
#[derive(Clone, Debug)]
pub(crate) struct PaddedCodec {
    inner: Arc<dyn FollowImage>,
    pad: Pad,
    items: PaddedItems,
}

/// The items of the lists that are padded.
#[derive(Clone, Debug)]
enum PaddedItems {
    /// Numbers, which are padded as in a column that does not follow an image.
    Numbers(Arc<PadCodec>),
    /// Arrays of this shape and number type, such as boxes. A padded row has `length` arrays.
    Arrays { shape: Vec<usize>, item: DataType, length: usize },
}

impl PaddedCodec {
    /// # Errors
    /// Fails if the inner codec refuses the stored column, or if the items cannot be padded.
    pub(crate) fn new(inner: Arc<dyn FollowImage>, pad: &Pad, stored: &Field) -> Result<Self> {
        pad.check()?;
        let delivered = inner.delivered(stored)?;
        let DataType::LargeList(item) = delivered.data_type() else {
            return Err(unfit(delivered.data_type()));
        };
        let (shape, of) = match item.data_type() {
            DataType::FixedSizeList(inside, side) => {
                let side = usize::try_from(*side).unwrap_or(0);
                (tensor_shape(item).unwrap_or_else(|| vec![side]), inside.data_type())
            }
            of => (Vec::new(), of),
        };
        let items = match shape.is_empty() {
            true => PaddedItems::Numbers(Arc::new(PadCodec::new(pad, &delivered, None)?)),
            false => {
                of.primitive_width().ok_or_else(|| unfit(delivered.data_type()))?;
                value_bytes(of, pad.filler())?;
                let length = pad.length().ok_or_else(|| {
                    Error::invalid("boxes, points and masks are padded to the longest list of a batch")
                        .hint("give `pad` a length, and no `multiple`")
                })?;
                PaddedItems::Arrays { shape, item: of.clone(), length }
            }
        };
        Ok(PaddedCodec { inner, pad: pad.clone(), items })
    }

    /// Returns an error for each list that is too long and may not be truncated.
    fn too_long(&self, lists: &dyn Array, length: usize) -> Vec<BadValue> {
        let lists = lists.as_list::<i64>();
        let long = (0..lists.len()).map(|row| (row, lists.value_length(row) as usize));
        let long = long.filter(|(_, items)| *items > length && !self.pad.truncates());
        long.map(|(row, items)| {
            let cause = format!("a list of {items} items, which is padded to {length}");
            let error = Error::new(ErrorKind::BadRow, cause);
            (row, error.hint("pad to more items, or cut lists off with `truncate`"))
        })
        .collect()
    }
}

fn unfit(data_type: &DataType) -> Error {
    Error::invalid(format!("delivers {}, which is not padded", TypeName(data_type)))
        .hint("lists of numbers, boxes, points and masks are padded, and no lists inside of lists")
}

impl FollowImage for PaddedCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        match &self.items {
            PaddedItems::Numbers(numbers) => numbers.delivered(self.inner.delivered(stored)?.as_ref()),
            PaddedItems::Arrays { shape, item, length } => {
                let shape: Vec<usize> = std::iter::once(*length).chain(shape.iter().copied()).collect();
                tensor_field(stored.name(), &shape, item.clone()).map(Arc::new)
            }
        }
    }

    fn image(&self) -> usize {
        self.inner.image()
    }

    fn takes_mask(&self) -> bool {
        false
    }

    fn follow(&self, gathered: ArrayRef, rows: &dyn FollowedRows) -> Result<GatheredRows> {
        let (lists, bad) = self.inner.follow(gathered, rows)?;
        let (shape, item, length) = match &self.items {
            PaddedItems::Numbers(numbers) => return after_making(lists, bad, numbers.as_ref(), false),
            PaddedItems::Arrays { shape, item, length } => (shape, item, *length),
        };
        let refused = self.too_long(lists.as_ref(), length);
        let lists = lists.as_list::<i64>();
        let values = lists.values().as_fixed_size_list().values();
        let numbers = shape.iter().product::<usize>();
        let filler = value_bytes(item, self.pad.filler())?;
        let (each, row) = (numbers * filler.len(), length * numbers * filler.len());
        let data = values.to_data();
        let stored = data.buffers()[0].as_slice();
        let stored = &stored[data.offset() * filler.len()..];
        let mut padded: Vec<u8> = Vec::with_capacity(lists.len() * row);
        let padding = filler.repeat(length * numbers);
        for at in 0..lists.len() {
            let begin = padded.len();
            let place = self.pad.place(lists.value_length(at) as usize, length);
            padded.extend_from_slice(&padding[..place.before * each]);
            let first = lists.value_offsets()[at] as usize + place.from;
            padded.extend_from_slice(&stored[first * each..][..place.count * each]);
            padded.extend_from_slice(&padding[padded.len() - begin..]);
        }
        let data = ArrayData::builder(item.clone()).len(padded.len() / filler.len());
        let data = data.add_buffer(padded.into()).align_buffers(true).build().or_fail()?;
        let item = Arc::new(Field::new("item", item.clone(), false));
        let made = FixedSizeListArray::try_new(item, (length * numbers) as i32, make_array(data), None);
        let mut bad: Vec<BadValue> = bad.into_iter().chain(refused).collect();
        bad.sort_by_key(|(row, _)| *row);
        Ok((Arc::new(made.or_fail()?), bad))
    }

    fn size(&self) -> RowSize {
        match &self.items {
            PaddedItems::Numbers(numbers) => numbers.size(),
            PaddedItems::Arrays { shape, item, length } => {
                let bytes = shape.iter().product::<usize>() * length * item.primitive_width().unwrap_or(1);
                RowSize { bytes: Some(bytes as u64), ..RowSize::default() }
            }
        }
    }

    fn mask(&self, name: &str) -> Option<Arc<dyn FollowImage>> {
        let mask = PadMaskCodec { pad: self.pad.clone(), name: name.to_owned() };
        Some(Arc::new(PaddedMaskCodec { inner: self.inner.clone(), mask }))
    }

    fn noun(&self) -> Noun {
        self.inner.noun()
    }
}

/// Delivers the mask of padded lists, which is true for items that the codec `inner` delivers, and false for
/// padding.
#[derive(Debug)]
struct PaddedMaskCodec {
    inner: Arc<dyn FollowImage>,
    mask: PadMaskCodec,
}

impl FollowImage for PaddedMaskCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        self.mask.delivered(stored)
    }

    fn image(&self) -> usize {
        self.inner.image()
    }

    fn takes_mask(&self) -> bool {
        false
    }

    /// Bad rows are not reported here, because the column of the padded lists reports them.
    fn follow(&self, gathered: ArrayRef, rows: &dyn FollowedRows) -> Result<GatheredRows> {
        let (lists, _) = self.inner.follow(gathered, rows)?;
        let all = Selection::of_one((0..lists.len() as u32).collect());
        self.mask.gather(&[lists.as_ref()], &all)
    }

    fn size(&self) -> RowSize {
        self.mask.size()
    }

    fn noun(&self) -> Noun {
        self.inner.noun()
    }
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{Int32Array, LargeListArray};
    use forebay_arrow::buffer::OffsetBuffer;
    use forebay_arrow::datatypes::Int32Type;
    use forebay_image::{RowKey, Workspace};

    use super::*;
    use crate::column::{PadSide, RowCells};

    /// Delivers the stored lists, of which the given rows are bad.
    #[derive(Debug)]
    struct Untouched(Vec<usize>);

    impl FollowImage for Untouched {
        fn delivered(&self, stored: &Field) -> Result<FieldRef> {
            Ok(Arc::new(stored.clone()))
        }

        fn image(&self) -> usize {
            0
        }

        fn takes_mask(&self) -> bool {
            true
        }

        fn follow(&self, gathered: ArrayRef, _: &dyn FollowedRows) -> Result<GatheredRows> {
            let bad = self.0.iter().map(|row| (*row, Error::new(ErrorKind::BadRow, "bad")));
            Ok((gathered, bad.collect()))
        }

        fn noun(&self) -> Noun {
            Noun { one: "a pair", several: "pairs" }
        }
    }

    struct NoImages;

    impl FollowedRows for NoImages {
        fn count(&self) -> usize {
            0
        }

        fn cells(&self, _: usize) -> Option<(RowCells<'_>, RowKey)> {
            None
        }

        fn gather(&self, _: usize) -> Result<ArrayRef> {
            Err(Error::new(ErrorKind::Internal, "no columns"))
        }

        fn workspace(&self) -> &Workspace {
            unreachable!()
        }
    }

    /// Lists of 1, 0, 3 and 2 pairs of the numbers from 1 on.
    fn pairs() -> ArrayRef {
        let item = |values: &ArrayRef| Arc::new(Field::new("item", values.data_type().clone(), false));
        let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(1..=12));
        let pairs: ArrayRef = Arc::new(FixedSizeListArray::new(item(&numbers), 2, numbers, None));
        Arc::new(LargeListArray::new(item(&pairs), OffsetBuffer::from_lengths([1, 0, 3, 2]), pairs, None))
    }

    fn codec(pad: &Pad, bad: Vec<usize>) -> Result<PaddedCodec> {
        PaddedCodec::new(Arc::new(Untouched(bad)), pad, &Field::new("x", pairs().data_type().clone(), false))
    }

    /// The numbers of each row, the bad rows, and the mask of the items.
    fn padded(pad: &Pad, bad: Vec<usize>) -> (Vec<Vec<i32>>, Vec<usize>, Vec<Vec<bool>>) {
        let codec = codec(pad, bad).unwrap();
        let (made, bad) = codec.follow(pairs(), &NoImages).unwrap();
        let delivered = codec.delivered(&Field::new("x", pairs().data_type().clone(), false)).unwrap();
        assert_eq!(delivered.data_type(), made.data_type());
        let rows = made.as_fixed_size_list();
        let row = |row| rows.value(row).as_primitive::<Int32Type>().values().to_vec();
        let mask = codec.mask("x.mask").unwrap();
        assert!(!mask.takes_mask());
        let (masks, none) = mask.follow(pairs(), &NoImages).unwrap();
        assert!(none.is_empty(), "the column of the lists tells its bad rows");
        let masks = masks.as_fixed_size_list();
        let there =
            |row| masks.value(row).as_boolean().iter().map(|is_there| is_there == Some(true)).collect();
        let all = 0..rows.len();
        (all.clone().map(row).collect(), bad.iter().map(|(row, _)| *row).collect(), all.map(there).collect())
    }

    #[test]
    fn items_are_padded_and_cut_off_whole() {
        let pad = Pad::new(2).value(-1.0).truncate(true).mask(true);
        let (rows, bad, masks) = padded(&pad, vec![]);
        assert_eq!(rows, [[1, 2, -1, -1], [-1; 4], [3, 4, 5, 6], [9, 10, 11, 12]]);
        assert_eq!(masks, [[true, false], [false; 2], [true; 2], [true; 2]]);
        assert!(bad.is_empty());
        let (rows, bad, masks) = padded(&pad.side(PadSide::Left), vec![]);
        assert_eq!(rows[0], [-1, -1, 1, 2]);
        assert_eq!((masks[0].as_slice(), bad), (&[false, true][..], vec![]));
        let (rows, ..) = padded(&Pad::new(3), vec![]);
        assert_eq!(rows, [[1, 2, 0, 0, 0, 0], [0; 6], [3, 4, 5, 6, 7, 8], [9, 10, 11, 12, 0, 0]]);
    }

    #[test]
    fn lists_that_are_too_long_are_bad_in_order_with_the_others() {
        let (_, bad, _) = padded(&Pad::new(2), vec![1, 3]);
        assert_eq!(bad, [1, 2, 3]);
        let (_, bad, _) = padded(&Pad::new(1), vec![0]);
        assert_eq!(bad, [0, 2, 3]);
    }

    #[test]
    fn arrays_are_padded_to_a_length_that_is_given_and_can_be() {
        assert_eq!(codec(&Pad::new(3), vec![]).unwrap().size().bytes, Some(3 * 2 * 4));
        for (pad, said) in [
            (Pad::new(0), "rows of 0 values"),
            (Pad::new(5).multiple(2), "rows of at most 5 values, which is not a multiple of 2"),
            (Pad::longest(), "boxes, points and masks are padded to the longest list of a batch"),
        ] {
            assert_eq!(codec(&pad, vec![]).unwrap_err().cause(), said);
        }
    }
}
