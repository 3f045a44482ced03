//! The tree of a nested column: builds its nodes from the Arrow type and the file's schema, and later its
//! array from the arrays of its leaves.

use std::sync::Arc;

use forebay_arrow::array::{
    ArrayRef, AsArray, FixedSizeListArray, LargeListArray, ListArray, MapArray, StructArray, UInt32Array,
};
use forebay_arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use forebay_arrow::compute::take;
use forebay_arrow::datatypes::{DataType, Field, FieldRef, Fields};
use parquet::basic::Repetition;
use parquet::schema::types::{ColumnDescriptor, Type};

use super::leaf::NestedLeaf;
use super::levels::{LeafLevels, NodeLevels};
use super::shape::Shape;

/// A node of a nested column. `leaf` is the index of the first leaf in or below it.
pub(super) struct Tree {
    leaf: usize,
    /// The number of nodes above this one.
    depth: usize,
    kind: NodeKind,
}

enum NodeKind {
    Leaf,
    Structure(Fields, Vec<Tree>),
    /// A list or a map, with its Arrow type and the node of its items.
    List(DataType, Box<Tree>),
}

/// The leaves of a column that are read.
pub(super) type Branches<'a> = Vec<Branch<'a>>;

/// A leaf that is read, with the levels of the nodes on the way to it.
pub(super) struct Branch<'a> {
    pub(super) field: &'a Field,
    pub(super) column: &'a ColumnDescriptor,
    pub(super) levels: LeafLevels,
    /// The number of nodes, counted from the root, that its path shares with the path of the leaf before it.
    pub(super) shared: usize,
}

/// The tree of a nested column, and its leaves that are read; `None` if the column is not nested, or is
/// stored in an unusual form. `leaves` has an entry for each leaf in the file: its descriptor if it is read.
pub(super) fn of_column<'a>(
    field: &'a Field,
    root: &Type,
    leaves: &[Option<&'a ColumnDescriptor>],
) -> Option<(Tree, Branches<'a>)> {
    root.is_group().then_some(())?;
    let mut builder =
        TreeBuilder { leaves: leaves.iter(), branches: Vec::new(), path: LeafLevels::default(), shared: 0 };
    let (tree, _) = builder.node(field, root)??;
    // If leaves are left over, the file stores more leaves than the type has.
    builder.leaves.next().is_none().then_some((tree, builder.branches))
}

/// A node that is read, with its field; `None` if nothing of it is read.
type Found = Option<(Tree, FieldRef)>;

struct TreeBuilder<'a, 'b> {
    leaves: std::slice::Iter<'b, Option<&'a ColumnDescriptor>>,
    branches: Branches<'a>,
    /// The nodes on the path from the root to the current one.
    path: LeafLevels,
    /// The number of nodes of `path` that are also on the path of the last leaf.
    shared: usize,
}

impl<'a> TreeBuilder<'a, '_> {
    /// The node of a field and everything below; `None` if it is stored in an unusual form.
    fn node(&mut self, field: &'a Field, stored: &Type) -> Option<Found> {
        let info = stored.get_basic_info();
        let outside = self.path.clone();
        self.path.definition += match info.repetition() {
            Repetition::REQUIRED => 0,
            Repetition::OPTIONAL => 1,
            Repetition::REPEATED => return None,
        };
        let (depth, leaf) = (self.path.nodes.len(), self.branches.len());
        let found = match field.data_type() {
            DataType::Struct(fields) => self.structure(fields, stored)?,
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                self.list(field, item, stored)?
            }
            DataType::Map(entries, _) => self.map(field, entries, stored)?,
            _ => self.leaf(field, stored)?,
        };
        self.path = outside;
        self.shared = self.shared.min(depth);
        Some(found.map(|(kind, data_type)| {
            let field = field.clone().with_data_type(data_type);
            (Tree { leaf, depth, kind }, Arc::new(field))
        }))
    }

    fn leaf(&mut self, field: &'a Field, stored: &Type) -> Option<Option<(NodeKind, DataType)>> {
        stored.is_primitive().then_some(())?;
        let Some(column) = *self.leaves.next()? else { return Some(None) };
        self.push(NodeLevels::Value(self.path.definition));
        let levels = self.path.clone();
        let is_of_column = i16::from(levels.repetition) == column.max_rep_level()
            && i16::from(levels.definition) == column.max_def_level();
        is_of_column.then_some(())?;
        let shared = std::mem::replace(&mut self.shared, levels.nodes.len());
        self.branches.push(Branch { field, column, levels, shared });
        Some(Some((NodeKind::Leaf, field.data_type().clone())))
    }

    fn structure(&mut self, fields: &'a Fields, stored: &Type) -> Option<Option<(NodeKind, DataType)>> {
        (stored.is_group() && stored.get_fields().len() == fields.len()).then_some(())?;
        self.push(NodeLevels::Value(self.path.definition));
        let (mut kept, mut trees) = (Vec::with_capacity(fields.len()), Vec::with_capacity(fields.len()));
        for (field, stored) in fields.iter().zip(stored.get_fields()) {
            (field.name() == stored.name()).then_some(())?;
            if let Some((tree, field)) = self.node(field, stored)? {
                kept.push(field);
                trees.push(tree);
            }
        }
        let fields = Fields::from(kept);
        Some(
            (!trees.is_empty())
                .then(|| (NodeKind::Structure(fields.clone(), trees), DataType::Struct(fields))),
        )
    }

    /// A list in the usual three levels: the list, a repeated group, and the item.
    fn list(
        &mut self,
        field: &'a Field,
        item: &'a FieldRef,
        stored: &Type,
    ) -> Option<Option<(NodeKind, DataType)>> {
        let repeated = repeated(stored)?;
        let [stored_item] = repeated.get_fields() else { return None };
        // By the rules of the format, a repeated group with one of these names is itself the item.
        let is_item = repeated.name() == "array" || *repeated.name() == format!("{}_tuple", stored.name());
        (!is_item).then_some(())?;
        self.begin_items()?;
        let found = self.node(item, stored_item)?;
        Some(found.map(|(tree, item)| {
            let data_type = match field.data_type() {
                DataType::LargeList(_) => DataType::LargeList(item),
                DataType::FixedSizeList(_, length) => DataType::FixedSizeList(item, *length),
                _ => DataType::List(item),
            };
            (NodeKind::List(data_type.clone(), Box::new(tree)), data_type)
        }))
    }

    /// A map: a list of entries, which are structures of a key and a value, and never null.
    fn map(
        &mut self,
        field: &'a Field,
        entries: &'a FieldRef,
        stored: &Type,
    ) -> Option<Option<(NodeKind, DataType)>> {
        let repeated = repeated(stored)?;
        let DataType::Struct(fields) = entries.data_type() else { return None };
        let [key, value] = &fields[..] else { return None };
        let [stored_key, stored_value] = repeated.get_fields() else { return None };
        self.begin_items()?;
        let (depth, leaf) = (self.path.nodes.len(), self.branches.len());
        self.push(NodeLevels::Value(self.path.definition));
        // If a leaf of a map is not read, the type of the map changes, so the Parquet crate reads the column.
        let (key_tree, _) = self.node(key, stored_key)??;
        let (value_tree, of_value) = self.node(value, stored_value)??;
        (of_value.data_type() == value.data_type()).then_some(())?;
        let kind = NodeKind::Structure(fields.clone(), vec![key_tree, value_tree]);
        let data_type = field.data_type().clone();
        Some(Some((NodeKind::List(data_type.clone(), Box::new(Tree { leaf, depth, kind })), data_type)))
    }

    /// Adds a list or a map to the path; the nodes that follow are its items.
    fn begin_items(&mut self) -> Option<()> {
        self.push(NodeLevels::List(self.path.definition));
        self.path.definition = self.path.definition.checked_add(1)?;
        self.path.repetition = self.path.repetition.checked_add(1)?;
        Some(())
    }

    fn push(&mut self, node: NodeLevels) {
        self.path.nodes.push(node);
    }
}

/// The repeated group that a list or map consists of; `None` if it is stored in another form.
fn repeated(stored: &Type) -> Option<&Type> {
    stored.is_group().then_some(())?;
    let [repeated] = stored.get_fields() else { return None };
    let is_repeated = repeated.get_basic_info().repetition() == Repetition::REPEATED;
    (is_repeated && repeated.is_group()).then_some(&**repeated)
}

/// Builds the array of a node from the leaves below it, and the shapes along the paths to them.
pub(super) fn array<'a>(
    tree: &Tree,
    shapes: &[Arc<Shape>],
    leaves: &mut impl Iterator<Item = NestedLeaf<'a>>,
) -> Option<ArrayRef> {
    let shape = &shapes[tree.leaf];
    match &tree.kind {
        NodeKind::Leaf => {
            let (len, nulls) = shape.values(tree.depth)?;
            leaves.next()?.finish(len, nulls)
        }
        NodeKind::Structure(fields, trees) => {
            let (len, nulls) = shape.values(tree.depth)?;
            let columns = trees.iter().map(|tree| array(tree, shapes, leaves)).collect::<Option<Vec<_>>>()?;
            Some(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, len).ok()?))
        }
        NodeKind::List(data_type, item) => {
            let items = array(item, shapes, leaves)?;
            let (offsets, nulls) = shape.lists(tree.depth)?;
            lists(data_type, offsets, items, nulls)
        }
    }
}

/// An array of lists of any type, or of maps.
fn lists(
    data_type: &DataType,
    offsets: &[i32],
    items: ArrayRef,
    nulls: Option<NullBuffer>,
) -> Option<ArrayRef> {
    let short = || OffsetBuffer::new(ScalarBuffer::from(offsets.to_vec()));
    Some(match data_type {
        DataType::List(item) => Arc::new(ListArray::try_new(item.clone(), short(), items, nulls).ok()?),
        DataType::LargeList(item) => {
            let long: Vec<i64> = offsets.iter().map(|offset| i64::from(*offset)).collect();
            let offsets = OffsetBuffer::new(ScalarBuffer::from(long));
            Arc::new(LargeListArray::try_new(item.clone(), offsets, items, nulls).ok()?)
        }
        DataType::FixedSizeList(item, length) => fixed_lists(item, *length, offsets, items, nulls)?,
        DataType::Map(entries, sorted) => {
            let items = items.as_struct().clone();
            Arc::new(MapArray::try_new(entries.clone(), short(), items, nulls, *sorted).ok()?)
        }
        _ => return None,
    })
}

/// Makes an array of lists of a fixed length. It gives each null list `length` null items, as Arrow requires.
fn fixed_lists(
    item: &FieldRef,
    length: i32,
    offsets: &[i32],
    mut items: ArrayRef,
    nulls: Option<NullBuffer>,
) -> Option<ArrayRef> {
    let is_there = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let rows = offsets.len() - 1;
    let is_fixed = |row: usize| offsets[row + 1] - offsets[row] == if is_there(row) { length } else { 0 };
    (0..rows).all(is_fixed).then_some(())?;
    if nulls.is_some() {
        let places = (0..rows).flat_map(|row| {
            let is_there = is_there(row);
            (0..length).map(move |at| is_there.then_some((offsets[row] + at) as u32))
        });
        items = take(&items, &UInt32Array::from_iter(places), None).ok()?;
    }
    Some(Arc::new(FixedSizeListArray::try_new_with_length(item.clone(), length, items, nulls, rows).ok()?))
}
