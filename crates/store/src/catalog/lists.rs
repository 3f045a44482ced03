//! Counts the values that lists of a fixed length take in Arrow, which stores all items even of a null list,
//! whereas Parquet stores none.

use forebay_arrow::datatypes::{DataType, Field, Schema};
use parquet::schema::types::SchemaDescriptor;

use super::types::VIEW_BYTES;

/// The nested lists that the values of a leaf column are in. At least one of them has a fixed length.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeafLists {
    /// The fixed length of each list, the outermost first; `None` for a list of varying length.
    lengths: Box<[Option<u64>]>,
    /// The bytes that a value takes in Arrow.
    width: u64,
}

/// The most lists and values that a column chunk can have once it is in Arrow memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotLimits {
    /// The most lists of varying length, added up over all levels of nesting.
    pub(crate) lists: u64,
    /// The most values, including those of null lists, which Parquet does not store.
    pub(crate) values: u64,
}

impl LeafLists {
    /// Finds the nested lists of each leaf column of a schema. Empty if no list in it has a fixed length.
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
            // A refused column may have the type `Null`, and then it has fewer leaves here than in Parquet.
            of_root.resize(leaves, None);
            all.append(&mut of_root);
        }
        if all.iter().all(Option::is_none) { Box::default() } else { all.into() }
    }

    /// Adds an entry for each leaf of `field` to `found`; `around` has the lists that the field is in.
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

    /// Whether the number of nulls is needed to count the values, because a list of a fixed length is inside
    /// a list of varying length.
    pub(super) fn are_counted_by_nulls(&self) -> bool {
        let mut inner = self.lengths.iter().skip_while(|length| length.is_some());
        inner.any(Option::is_some)
    }

    /// The bytes that a value takes in Arrow.
    pub(super) fn width(&self) -> u64 {
        self.width
    }

    /// The most lists and values of a chunk with `rows` rows and `values` stored values. At most `nulls` of
    /// these are null or inside a null list or structure; `None` if their number is unknown.
    pub(super) fn slots(&self, rows: u64, values: u64, nulls: Option<u64>) -> SlotLimits {
        let nulls = nulls.unwrap_or(values).min(values);
        // `are_of_rows` stays true until the first list of varying length, because up to there every row has
        // the same number of items (`each`), null or not.
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

/// The number of bytes that a value takes in Arrow, without the bytes that a view points to.
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
