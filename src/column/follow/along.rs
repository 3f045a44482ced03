//! Delivers columns of lists with one item for each box, such as labels. The item of a dropped box is dropped
//! too.

use std::collections::HashSet;
use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, AsArray, BooleanArray, LargeListArray};
use forebay_arrow::buffer::{OffsetBuffer, ScalarBuffer};
use forebay_arrow::compute::filter;
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_arrow::fail::OrFail;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Result};

use super::kept::{KeptBoxes, check_items};
use crate::batch::delivered;
use crate::column::{BadValue, FollowImage, FollowedRows, GatheredRows, Noun};

/// Delivers the items of the boxes that are not dropped.
#[derive(Debug)]
pub(crate) struct AlongCodec {
    kept: KeptBoxes,
    /// The codec that transforms the items with the image, as for keypoints, before some are dropped; `None`
    /// if the items do not depend on the image.
    inner: Option<Arc<dyn FollowImage>>,
}

impl AlongCodec {
    pub(crate) fn new(kept: KeptBoxes, inner: Option<Arc<dyn FollowImage>>) -> Self {
        AlongCodec { kept, inner }
    }
}

impl FollowImage for AlongCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        self.kept.check()?;
        let field = match &self.inner {
            Some(inner) => inner.delivered(stored)?,
            None => delivered(stored),
        };
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
        self.kept.image()
    }

    fn takes_mask(&self) -> bool {
        false
    }

    fn follow(&self, gathered: ArrayRef, rows: &dyn FollowedRows) -> Result<GatheredRows> {
        let (gathered, mut bad) = match &self.inner {
            Some(inner) => inner.follow(gathered, rows)?,
            None => (gathered, Vec::new()),
        };
        let DataType::LargeList(item) = gathered.data_type() else {
            return Err(Error::new(ErrorKind::Internal, "items of boxes that are not in a list"));
        };
        let lists = gathered.as_list::<i64>();
        let are_bad: HashSet<usize> = bad.iter().map(|(row, _)| *row).collect();
        // Values that belong to no row, such as those of a null list, are not kept.
        let mut kept = vec![false; lists.values().len()];
        let mut offsets = vec![0i64];
        let mut refused: Vec<BadValue> = Vec::new();
        for (row, boxes) in self.kept.of_rows(rows)?.into_iter().enumerate() {
            let mut count = *offsets.last().unwrap_or(&0);
            let keep = || {
                let Some(boxes) = boxes.filter(|_| !are_bad.contains(&row)) else { return Ok(()) };
                if lists.is_null(row) {
                    return Err(Error::new(
                        ErrorKind::BadRow,
                        "null in place of a list with an item for each box",
                    ));
                }
                let (first, items) = (lists.value_offsets()[row] as usize, lists.value_length(row) as usize);
                check_items(items, boxes.len())?;
                kept[first..first + items].copy_from_slice(&boxes);
                count += boxes.iter().filter(|kept| **kept).count() as i64;
                Ok(())
            };
            if let Err(error) = keep() {
                refused.push((row, error));
            }
            offsets.push(count);
        }
        let values = filter(lists.values(), &BooleanArray::from(kept)).or_fail()?;
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let made = LargeListArray::try_new(item.clone(), offsets, values, None).or_fail()?;
        bad.extend(refused);
        bad.sort_by_key(|(row, _)| *row);
        Ok((Arc::new(made), bad))
    }

    fn noun(&self) -> Noun {
        Noun { one: "a list of items of boxes", several: "items of boxes" }
    }
}
