//! Delivers columns with nulls as dense arrays: a fill value replaces each null, and a second column, the
//! mask, is true where a row has a value.

use std::sync::Arc;

use forebay_arrow::array::{Array, AsArray, BooleanArray};
use forebay_arrow::buffer::{BooleanBuffer, NullBuffer};
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Result};

use super::{Gather, GatheredRows, RowSize};
use crate::batch::{Fill, Selection, gather, presence};

/// The value that replaces nulls in a column with a mask: `given`, or by default 0, an empty text, or no
/// bytes.
///
/// Fails with `Invalid` for a type without such a value, such as a structure or lists of varying length.
pub(crate) fn masked_fill(stored: &DataType, given: Option<&Fill>) -> Result<Fill> {
    let zero = match stored {
        DataType::Utf8View => Fill::from(""),
        DataType::BinaryView => Fill::from(Vec::new()),
        _ => Fill::from(0.0),
    };
    let refused = |hint: &str| {
        let cause =
            format!("holds {stored}, for which no mask of nulls can be delivered", stored = TypeName(stored));
        Err(Error::invalid(cause).hint(hint))
    };
    match stored {
        DataType::List(_) | DataType::LargeList(_) | DataType::Map(..) => refused(
            "pad lists of numbers with a mask by `pad`, or read the batch with its nulls through Arrow",
        ),
        DataType::Struct(_) => refused("deliver its fields as columns by `flatten`, and name these instead"),
        _ if zero.check(stored).is_err() => refused("read the batch with its nulls through Arrow"),
        _ => Ok(given.cloned().unwrap_or(zero)),
    }
}

/// The codec of a column beside its mask, in which a fill value replaces each null.
#[derive(Debug)]
pub(crate) struct MaskedCodec {
    /// The codec that gathers the column with nulls filled.
    filled: Arc<dyn Gather>,
    /// Whether a null inside a list makes the row bad. It does if the user gave no fill, because the mask
    /// marks only whole rows.
    may_refuse: bool,
}

impl MaskedCodec {
    /// Wraps the codec `filled` for a column of type `stored`. `is_given` says whether the user chose the
    /// fill value.
    pub(crate) fn new(filled: Arc<dyn Gather>, stored: &DataType, is_given: bool) -> Self {
        MaskedCodec { filled, may_refuse: !is_given && matches!(stored, DataType::FixedSizeList(..)) }
    }
}

impl Gather for MaskedCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        self.filled.delivered(stored)
    }

    /// Also returns rows with nulls inside their lists as bad, if the user gave no fill, because the mask
    /// would mark such rows as present.
    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows> {
        let (gathered, mut refused) = self.filled.gather(sources, selection)?;
        if self.may_refuse && sources.iter().any(|source| has_nulls_in_rows(*source)) {
            refused.extend(nulls_in_rows(gather(sources, selection, None)?.as_ref()));
        }
        Ok((gathered, refused))
    }

    fn may_refuse(&self) -> bool {
        self.may_refuse
    }

    fn keeps_values(&self) -> bool {
        !self.may_refuse && self.filled.keeps_values()
    }
}

fn has_nulls_in_rows(source: &dyn Array) -> bool {
    source.as_fixed_size_list_opt().is_some_and(|lists| lists.values().null_count() > 0)
}

/// The rows whose list is not null but contains a null, with their errors. The result is empty if the column
/// does not have lists of a fixed length.
fn nulls_in_rows(lists: &dyn Array) -> Vec<(usize, Error)> {
    let Some(lists) = lists.as_fixed_size_list_opt() else { return Vec::new() };
    let Some(nulls) = lists.values().nulls() else { return Vec::new() };
    let length = usize::try_from(lists.value_length()).unwrap_or(0);
    let rows = (0..lists.len())
        .filter(|row| lists.is_valid(*row) && nulls.slice(row * length, length).null_count() > 0);
    let error = || {
        Error::new(ErrorKind::BadRow, "null inside a list, which the mask of whole rows cannot mark")
            .hint("give a value with `fill_null`")
    };
    rows.map(|row| (row, error())).collect()
}

/// The codec of the mask, which is true for the rows in which another column is not null.
#[derive(Debug)]
pub(crate) struct NullMaskCodec {
    pub(crate) name: String,
}

impl Gather for NullMaskCodec {
    fn delivered(&self, _: &Field) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(&self.name, DataType::Boolean, false)))
    }

    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows> {
        let cells: Vec<Option<BooleanArray>> = sources.iter().map(|source| cells_of(*source)).collect();
        let sources = sources.iter().zip(&cells).map(|(source, cells)| match cells {
            Some(cells) => cells,
            None => *source,
        });
        Ok((Arc::new(presence(&sources.collect::<Vec<_>>(), selection)), Vec::new()))
    }

    fn size(&self) -> RowSize {
        RowSize { bytes: Some(1), ..RowSize::default() }
    }

    fn may_refuse(&self) -> bool {
        false
    }
}

/// For a `struct<bytes, path>`, an array that is null where the structure or its `bytes` is null; `None` for
/// a column of another type.
fn cells_of(source: &dyn Array) -> Option<BooleanArray> {
    let fields = source.as_struct_opt()?;
    let nulls = NullBuffer::union(fields.nulls(), fields.column_by_name("bytes")?.nulls());
    Some(BooleanArray::new(BooleanBuffer::new_unset(fields.len()), nulls))
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{
        ArrayRef, BinaryViewArray, Date32Array, FixedSizeBinaryArray, FixedSizeListArray, Float32Array,
        Int64Array, StringViewArray,
    };
    use forebay_arrow::datatypes::Int16Type;

    use super::*;
    use crate::column::PlainCodec;

    /// Returns the delivered column, its mask and its bad rows, for rows 2, 0 and 1 of a column with three
    /// rows.
    fn masked(column: &dyn Array, given: Option<Fill>) -> (ArrayRef, Vec<bool>, Vec<usize>) {
        let fill = masked_fill(column.data_type(), given.as_ref()).unwrap();
        let codec =
            MaskedCodec::new(Arc::new(PlainCodec { fill: Some(fill) }), column.data_type(), given.is_some());
        let field = Field::new("x", column.data_type().clone(), true);
        let rows = Selection::new(vec![(0, 2), (0, 0), (0, 1)]);
        let (values, refused) = codec.gather(&[column], &rows).unwrap();
        let expected = codec.delivered(&field).unwrap();
        assert_eq!((values.data_type(), expected.is_nullable()), (expected.data_type(), false));
        assert_eq!(values.null_count(), 0);
        let mask = NullMaskCodec { name: "x.mask".into() };
        let (mask, _) = mask.gather(&[column], &rows).unwrap();
        assert_eq!(mask.null_count(), 0);
        let refused = refused.into_iter().map(|(row, _)| row).collect();
        (values, mask.as_boolean().values().iter().collect(), refused)
    }

    #[test]
    fn each_null_has_a_value_and_is_false_in_the_mask() {
        let here = [false, true, true];
        let pairs = [Some([5; 2]), Some([6; 2]), None];
        let numbers: [ArrayRef; 5] = [
            Arc::new(Int64Array::from(vec![Some(5), Some(6), None])),
            Arc::new(Float32Array::from(vec![Some(5.0), Some(6.0), None])),
            Arc::new(Date32Array::from(vec![Some(5), Some(6), None])),
            Arc::new(BooleanArray::from(vec![Some(true), Some(true), None])),
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(pairs.into_iter(), 2).unwrap()),
        ];
        for column in numbers {
            let (values, mask, refused) = masked(column.as_ref(), None);
            assert_eq!((&mask[..], refused.len()), (&here[..], 0));
            let (given, _, _) = masked(column.as_ref(), Some(1.0.into()));
            assert_eq!(values.slice(1, 2).as_ref(), column.slice(0, 2).as_ref());
            assert_eq!(given.slice(1, 2).as_ref(), column.slice(0, 2).as_ref());
            assert_ne!(values.slice(0, 1).as_ref(), given.slice(0, 1).as_ref());
        }
        let texts = StringViewArray::from(vec![Some("a"), Some("b"), None]);
        let (values, mask, _) = masked(&texts, None);
        assert_eq!(values.as_string::<i64>().iter().flatten().collect::<Vec<_>>(), ["", "a", "b"]);
        assert_eq!(mask, here);
        let (values, ..) = masked(&texts, Some("none".into()));
        assert_eq!(values.as_string::<i64>().value(0), "none");
        let (values, mask, _) = masked(&BinaryViewArray::from(vec![Some(&b"a"[..]), Some(b""), None]), None);
        assert_eq!(values.as_binary::<i64>().iter().flatten().collect::<Vec<_>>(), [&b""[..], b"a", b""]);
        assert_eq!(mask, here);
    }

    #[test]
    fn a_mask_is_for_whole_rows_of_lists() {
        let lists = vec![Some(vec![Some(1), Some(2)]), Some(vec![Some(3), None]), None];
        let lists = FixedSizeListArray::from_iter_primitive::<Int16Type, _, _>(lists, 2);
        let (values, mask, refused) = masked(&lists, None);
        assert_eq!((mask, refused), (vec![false, true, true], vec![2]));
        let first = values.as_fixed_size_list().value(0);
        assert_eq!(first.as_primitive::<Int16Type>().values(), &[0, 0]);
        let (values, _, refused) = masked(&lists, Some(7.0.into()));
        let values = values.as_fixed_size_list().values().as_primitive::<Int16Type>().clone();
        assert_eq!((values.values().as_ref(), refused.len()), (&[7, 7, 1, 2, 3, 7][..], 0));
    }

    #[test]
    fn a_null_inside_a_list_is_found_in_any_of_several_row_groups() {
        let lists = |rows: [[Option<i16>; 2]; 2]| {
            let rows = rows.map(|row| Some(row.to_vec()));
            FixedSizeListArray::from_iter_primitive::<Int16Type, _, _>(rows, 2)
        };
        let whole = lists([[Some(1), Some(2)], [Some(3), Some(4)]]);
        let holed = lists([[Some(5), Some(6)], [None, Some(8)]]);
        let fill = masked_fill(whole.data_type(), None).unwrap();
        let codec = MaskedCodec::new(Arc::new(PlainCodec { fill: Some(fill) }), whole.data_type(), false);
        let sources: [&dyn Array; 3] = [&whole, &holed, &whole];
        let refused = |rows: Vec<(u32, u32)>| {
            let (_, refused) = codec.gather(&sources, &Selection::new(rows)).unwrap();
            refused.into_iter().map(|(row, _)| row).collect::<Vec<_>>()
        };
        assert_eq!(refused(vec![(0, 1), (2, 0), (1, 1), (1, 0), (0, 0)]), [2]);
        assert_eq!(refused(vec![(0, 1), (1, 0), (2, 0)]), [0; 0], "the row with the null is in no batch");
    }

    #[test]
    fn only_rows_of_several_values_may_be_bad_beside_a_mask() {
        let filled = || Arc::new(PlainCodec { fill: Some(0.0.into()) });
        let pairs = DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Int8, true)), 2);
        assert!(!filled().may_refuse());
        for (stored, is_given, may_refuse) in
            [(&pairs, false, true), (&pairs, true, false), (&DataType::Int64, false, false)]
        {
            assert_eq!(MaskedCodec::new(filled(), stored, is_given).may_refuse(), may_refuse, "{stored}");
        }
    }

    #[test]
    fn what_has_no_value_to_fill_is_refused() {
        let item = |of| Arc::new(Field::new("item", of, true));
        for stored in [
            DataType::List(item(DataType::Int8)),
            DataType::Struct([item(DataType::Int8)].into_iter().collect()),
            DataType::Decimal128(9, 2),
            DataType::FixedSizeList(item(DataType::Utf8View), 2),
            DataType::Null,
        ] {
            let error = masked_fill(&stored, None).unwrap_err();
            assert!(error.to_string().contains("no mask of nulls"), "{error}");
        }
    }
}
