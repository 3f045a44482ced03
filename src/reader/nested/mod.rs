//! Decodes columns of structures, of lists, and of both within each other, from pages to Arrow's buffers.
//!
//! ```text
//! pages ─ numbers, texts ─► values that are stored, and levels as they are stored, leaf by leaf
//!         shape ─► offsets and nulls of each list and structure; leaves with equal levels share one
//!         tree ─► array
//! ```
//!
//! A file stores the levels of a list again for each leaf within it. They are kept until all leaves have been
//! read. The leaves of a structure mostly have equal levels, which are then decoded once. If not, the lists
//! and structures that two leaves share are compared, so that a leaf that contradicts another is found.
//!
//! As in [`numbers`](super::numbers), a column is decoded here as a whole or left to the Parquet crate. The
//! crate gets everything unusual or damaged: types, encodings and codecs that this module does not know,
//! lists in the two levels of old writers, and leaves that contradict each other.

mod leaf;
mod levels;
mod mask;
mod shape;
#[cfg(test)]
mod tests;
mod texts;
mod tree;

use std::sync::Arc;

use forebay_arrow::array::ArrayRef;
use forebay_arrow::datatypes::Field;
use parquet::schema::types::{ColumnDescriptor, Type};

use self::shape::Shape;
use self::tree::{Branches, Tree};

pub(super) use self::leaf::NestedLeaf;

/// A nested column, whose leaves are decoded one by one and put together at the end.
pub(super) struct NestedColumn<'a> {
    tree: Tree,
    /// The leaves that are read, in the order of the file.
    branches: Branches<'a>,
}

impl<'a> NestedColumn<'a> {
    /// Prepares to read a column, whose type in the file is `root`. `leaves` has a descriptor for each leaf
    /// of the column that is read; fields without such a leaf are left out. `None` leaves the column to the
    /// Parquet crate.
    pub(super) fn for_field(
        field: &'a Field,
        root: &'a Type,
        leaves: &[Option<&'a ColumnDescriptor>],
    ) -> Option<Self> {
        let (tree, branches) = tree::of_column(field, root, leaves)?;
        Some(NestedColumn { tree, branches })
    }

    /// A decoder for each leaf that is read; `None` leaves the column to the Parquet crate.
    pub(super) fn leaves(&self) -> Option<Vec<NestedLeaf<'a>>> {
        self.branches.iter().map(|branch| NestedLeaf::for_field(branch.field, branch.column)).collect()
    }

    /// Joins the decoded leaves into the array of all rows; `None` leaves the column to the Parquet crate.
    pub(super) fn finish(self, leaves: Vec<NestedLeaf<'a>>) -> Option<ArrayRef> {
        let mut shapes: Vec<Arc<Shape>> = Vec::with_capacity(leaves.len());
        for (at, (branch, leaf)) in self.branches.iter().zip(&leaves).enumerate() {
            let kept = leaf.levels()?;
            let same = (0..at).rev().find(|&before| {
                let levels = &self.branches[before].levels;
                *levels == branch.levels && leaves[before].levels().is_some_and(|other| other.equal(kept))
            });
            let shape = match same {
                Some(before) => shapes[before].clone(),
                None => Arc::new(branch.levels.shape(kept)?),
            };
            if let Some(before) = at.checked_sub(1) {
                shape.agrees(&shapes[before], branch.shared).then_some(())?;
            }
            shapes.push(shape);
        }
        let mut leaves = leaves.into_iter();
        tree::array(&self.tree, &shapes, &mut leaves)
    }
}
