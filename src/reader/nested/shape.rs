//! The shape of a nested column along the path to one of its leaves: the offsets of each list on the path,
//! and the nulls of each list, each structure and the leaf.

use forebay_arrow::buffer::NullBuffer;

/// The shape of each node on the path of a leaf, from the root of the column to the leaf itself.
pub(super) struct Shape(pub(super) Vec<NodeShape>);

/// The shape of one node.
#[derive(PartialEq)]
pub(super) enum NodeShape {
    /// Structures, or the values of the leaf.
    Values { len: usize, nulls: Option<NullBuffer> },
    /// Lists or maps. `offsets` has the index of each list's first item among the items of all lists, and at
    /// its end the number of all items.
    Lists { offsets: Vec<i32>, nulls: Option<NullBuffer> },
}

impl Shape {
    /// Whether this leaf and another have the same offsets and nulls in the first `count` nodes, which their
    /// paths share.
    pub(super) fn agrees(&self, other: &Self, count: usize) -> bool {
        std::ptr::eq(self, other) || self.0[..count] == other.0[..count]
    }

    /// The number and the nulls of a node's values, if it is not a list.
    pub(super) fn values(&self, node: usize) -> Option<(usize, Option<NullBuffer>)> {
        match self.0.get(node)? {
            NodeShape::Values { len, nulls } => Some((*len, nulls.clone())),
            NodeShape::Lists { .. } => None,
        }
    }

    /// The offsets and the nulls of a node, if it is a list.
    pub(super) fn lists(&self, node: usize) -> Option<(&[i32], Option<NullBuffer>)> {
        match self.0.get(node)? {
            NodeShape::Lists { offsets, nulls } => Some((offsets, nulls.clone())),
            NodeShape::Values { .. } => None,
        }
    }
}
