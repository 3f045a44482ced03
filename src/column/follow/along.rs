//! Lists with one item for each box: if a box is dropped, its item is dropped as well.

use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, AsArray, BooleanArray, LargeListArray};
use forebay_arrow::buffer::{OffsetBuffer, ScalarBuffer};
use forebay_arrow::compute::filter;
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_arrow::fail::OrFail;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Result};

use super::Followed;
use super::boxes::{Boxes, check_stored, stored};
use crate::batch::delivered;
use crate::column::{FollowImage, FollowedRows, GatheredRows, Noun};

/// Delivers the items of the boxes that are kept.
#[derive(Debug)]
pub(crate) struct AlongCodec {
    boxes: Boxes,
    /// The index of the boxes' column.
    column: usize,
    /// The stored field of the boxes' column.
    stored: FieldRef,
    followed: Followed,
}

impl AlongCodec {
    pub(crate) fn new(boxes: Boxes, column: usize, stored: FieldRef, followed: Followed) -> Self {
        AlongCodec { boxes, column, stored, followed }
    }
}

impl FollowImage for AlongCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        check_stored(&self.stored)?;
        let field = delivered(stored);
        match field.data_type() {
            DataType::LargeList(_) => Ok(Arc::new(field.as_ref().clone().with_nullable(false))),
            _ => Err(Error::invalid(format!(
                "holds {}, not a list with an item for each box",
                TypeName(stored.data_type())
            ))
            .hint("name a column of lists with one item for each box in `along`")),
        }
    }

    fn image(&self) -> usize {
        self.followed.column
    }

    fn takes_mask(&self) -> bool {
        false
    }

    fn follow(&self, gathered: ArrayRef, rows: &dyn FollowedRows) -> Result<GatheredRows> {
        let DataType::LargeList(item) = gathered.data_type() else {
            return Err(Error::new(ErrorKind::Internal, "items of boxes that are not in a list"));
        };
        let lists = gathered.as_list::<i64>();
        let boxes = rows.gather(self.column)?;
        let boxes = stored(&boxes)?;
        // Values that belong to no row, such as those of a null list, are not kept.
        let mut kept = vec![false; lists.values().len()];
        let mut offsets = vec![0i64];
        let bad = self.followed.each_row(rows, |row, drawn| {
            let mut count = *offsets.last().unwrap_or(&0);
            let mut keep = || {
                // If the boxes of a row are bad, their own column reports it.
                let Some((drawn, stored)) = drawn.zip(boxes.row(row, "boxes").ok()) else { return Ok(()) };
                let Ok(visible) = self.boxes.visible(stored, drawn).collect::<Result<Vec<_>>>() else {
                    return Ok(());
                };
                if lists.is_null(row) {
                    return Err(Error::new(
                        ErrorKind::BadRow,
                        "null in place of a list with an item for each box",
                    ));
                }
                let (first, items) = (lists.value_offsets()[row] as usize, lists.value_length(row) as usize);
                if items != visible.len() {
                    let cause = format!("a list of {items} items for {} boxes", visible.len());
                    return Err(Error::new(ErrorKind::BadRow, cause));
                }
                for (at, visible) in visible.iter().enumerate() {
                    kept[first + at] = visible.is_some();
                    count += i64::from(visible.is_some());
                }
                Ok(())
            };
            let done = keep();
            offsets.push(count);
            done
        })?;
        let values = filter(lists.values(), &BooleanArray::from(kept)).or_fail()?;
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let made = LargeListArray::try_new(item.clone(), offsets, values, None).or_fail()?;
        Ok((Arc::new(made), bad))
    }

    fn noun(&self) -> Noun {
        Noun { one: "a list of items of boxes", several: "items of boxes" }
    }
}
