//! Counts the values in lists of a fixed length: for a null list Arrow stores all items, and Parquet none.

use forebay_arrow::datatypes::{DataType, Field, Schema};
use parquet::schema::types::SchemaDescriptor;

use super::types::VIEW_BYTES;

/// The lists around the values of a leaf column, some of which have a fixed length.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeafLists {
    /// The lengths of the lists from the outside in; `None` for a list that is not of fixed length.
    lengths: Box<[Option<u64>]>,
    /// The bytes of a value in Arrow.
    width: u64,
}

/// The most lists and values that a column chunk has in Arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotLimits {
    /// The number of lists of varying length, at all depths.
    pub(crate) lists: u64,
    /// The number of values, including those under null lists, which are not stored.
    pub(crate) values: u64,
}

impl LeafLists {
    /// The lists of each leaf column; empty if no list has a fixed length.
    pub(super) fn of_leaves(schema: &Schema, parquet: &SchemaDescriptor) -> Box<[Option<Self>]> {
        let mut all: Vec<Option<Self>> = Vec::new();
        let mut first = 0;
        for (root, field) in schema.fields().iter().enumerate() {
            let leaves = (first..parquet.num_columns())
                .take_while(|&leaf| parquet.get_column_root_idx(leaf) == root)
                .count();
            first += leaves;
            let mut of_root = Vec::with_capacity(leaves);
            LeafLists::add(field, &mut Vec::new(), &mut of_root);
            // A refused column may have another type than it is stored as.
            of_root.resize(leaves, None);
            all.append(&mut of_root);
        }
        if all.iter().all(Option::is_none) { Box::default() } else { all.into() }
    }

    /// Adds the lists of each leaf of a field, in order.
    fn add(field: &Field, around: &mut Vec<Option<u64>>, found: &mut Vec<Option<Self>>) {
        let (length, item) = match field.data_type() {
            DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _) => (None, item),
            DataType::FixedSizeList(item, length) => (Some(u64::try_from(*length).unwrap_or(0)), item),
            DataType::Struct(fields) => {
                return fields.iter().for_each(|field| LeafLists::add(field, around, found));
            }
            leaf => {
                let is_any_fixed = around.iter().any(Option::is_some);
                let lists = || LeafLists { lengths: around.as_slice().into(), width: width(leaf) };
                return found.push(is_any_fixed.then(lists));
            }
        };
        around.push(length);
        LeafLists::add(item, around, found);
        around.pop();
    }

    /// Whether the number of values depends on the number of nulls, because some lists of a fixed length are
    /// inside other lists.
    pub(super) fn are_counted_by_nulls(&self) -> bool {
        let mut inner = self.lengths.iter().skip_while(|length| length.is_some());
        inner.any(Option::is_some)
    }

    /// The bytes of a value in Arrow.
    pub(super) fn width(&self) -> u64 {
        self.width
    }

    /// The lists and values of a chunk of `rows` rows and `values` stored values, of which at most `nulls`
    /// are null or under a null.
    pub(super) fn slots(&self, rows: u64, values: u64, nulls: Option<u64>) -> SlotLimits {
        let nulls = nulls.unwrap_or(values).min(values);
        // Down to the first list of varying length, each row has the same number of lists, whatever is null.
        let (mut lists, mut are_of_rows, mut each) = (0u64, true, 1u64);
        let slots = |are_of_rows: bool, each: u64| match are_of_rows {
            true => rows.saturating_mul(each),
            false => (values - nulls).saturating_add(nulls.saturating_mul(each)),
        };
        for length in &self.lengths {
            match length {
                Some(length) => each = each.saturating_mul(*length),
                None => {
                    lists = lists.saturating_add(slots(are_of_rows, each));
                    (are_of_rows, each) = (false, 1);
                }
            }
        }
        SlotLimits { lists, values: slots(are_of_rows, each) }
    }
}

/// The number of bytes of a value, without those that a view points to.
fn width(leaf: &DataType) -> u64 {
    match leaf {
        DataType::Null => 0,
        DataType::FixedSizeBinary(bytes) => u64::try_from(*bytes).unwrap_or(0),
        other => other.primitive_width().map_or(VIEW_BYTES, |width| width as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists<const N: usize>(lengths: [Option<u64>; N]) -> LeafLists {
        LeafLists { lengths: lengths.into(), width: 4 }
    }

    #[test]
    fn a_list_of_a_fixed_length_has_all_items_in_every_row() {
        let vectors = lists([Some(1536)]);
        assert!(!vectors.are_counted_by_nulls());
        let all_there = SlotLimits { lists: 0, values: 15_360 };
        assert_eq!(vectors.slots(10, 15_360, Some(0)), all_there);
        assert_eq!(vectors.slots(10, 10, None), all_there, "all are null");
        assert_eq!(lists([Some(3), Some(4)]).slots(10, 10, Some(10)).values, 120);
    }

    #[test]
    fn in_lists_that_differ_in_length_the_nulls_are_counted() {
        let boxes = lists([None, Some(4)]);
        assert!(boxes.are_counted_by_nulls());
        assert_eq!(boxes.slots(10, 400, Some(0)), SlotLimits { lists: 10, values: 400 });
        assert_eq!(boxes.slots(10, 400, Some(5)), SlotLimits { lists: 10, values: 415 });
        assert_eq!(boxes.slots(10, 400, None).values, 1600, "all may be null");
        let texts = lists([Some(100), None]);
        assert!(!texts.are_counted_by_nulls());
        assert_eq!(texts.slots(10, 10, Some(10)), SlotLimits { lists: 1000, values: 10 });
        assert_eq!(lists([None, Some(2), None]).slots(1, 10, Some(10)), SlotLimits { lists: 21, values: 10 });
    }
}
