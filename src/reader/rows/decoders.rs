//! Forebay's own decoders for the columns of a projection. Each decoder either decodes its column or leaves
//! it to the Parquet crate.

use forebay_arrow::array::ArrayRef;
use forebay_store::catalog::FileColumns;

use crate::column::CodeValues;
use crate::reader::nested::{NestedColumn, NestedLeaf};
use crate::reader::numbers::{CheckedChunk, NumberColumn};

/// The decoders of the leaf columns that are read.
pub(super) struct Decoders<'a> {
    /// The decoder of each leaf; `None` for leaves that are left to the Parquet crate.
    leaves: Vec<Option<ColumnDecoder<'a>>>,
    /// For each leaf, the index of its column among the columns that are read.
    column_of: Vec<usize>,
    /// For each nested column, the tree by which its leaves are put together; `None` for other columns.
    nested: Vec<Option<NestedColumn<'a>>>,
}

enum ColumnDecoder<'a> {
    /// The only leaf of a column.
    Column(NumberColumn<'a>),
    /// A leaf of a nested column.
    Leaf(NestedLeaf<'a>),
}

/// A column of a file, and those of its leaf columns that are read.
struct ColumnLeaves<'a> {
    /// The index of the column among the columns that are read.
    at: usize,
    /// The index of the column in the file.
    root: usize,
    leaves: &'a [usize],
    /// The index of the first leaf among all leaves that are read.
    from: usize,
}

impl<'a> Decoders<'a> {
    /// Makes decoders for the columns at `roots` and their `leaves`, both in ascending order. Each column
    /// will have `rows` rows. `codes` returns the codes for the texts of a column that is read as codes.
    pub(super) fn new(
        columns: &'a FileColumns,
        roots: &[usize],
        leaves: &[usize],
        codes: impl Fn(usize) -> Option<&'a dyn CodeValues>,
        rows: usize,
    ) -> Self {
        let mut decoders = Decoders::none(columns, roots, leaves);
        let mut from = 0;
        for (at, &root) in roots.iter().enumerate() {
            let to = from + decoders.column_of[from..].iter().take_while(|column| **column == at).count();
            let column = ColumnLeaves { at, root, leaves: &leaves[from..to], from };
            decoders.column(columns, column, codes(root), rows);
            from = to;
        }
        decoders
    }

    /// Makes no decoders, so that all columns are left to the Parquet crate.
    pub(super) fn none(columns: &'a FileColumns, roots: &[usize], leaves: &[usize]) -> Self {
        let column_of = |leaf: &usize| {
            let root = columns.parquet.get_column_root_idx(*leaf);
            roots.partition_point(|before| *before < root)
        };
        Decoders {
            leaves: leaves.iter().map(|_| None).collect(),
            column_of: leaves.iter().map(column_of).collect(),
            nested: roots.iter().map(|_| None).collect(),
        }
    }

    /// Makes the decoders for the leaves of one column.
    fn column(
        &mut self,
        columns: &'a FileColumns,
        ColumnLeaves { at, root, leaves, from }: ColumnLeaves<'_>,
        codes: Option<&'a dyn CodeValues>,
        rows: usize,
    ) {
        let Some(&first) = leaves.first() else { return };
        let (field, stored) = (columns.schema.field(root), columns.parquet.columns());
        if let Some(column) = NumberColumn::for_field(field, &stored[first], codes, rows) {
            self.leaves[from] = Some(ColumnDecoder::Column(column));
            return;
        }
        let root_type = columns.parquet.get_column_root(first);
        if codes.is_some() || !root_type.is_group() {
            return;
        }
        let is_of_root = |leaf: &usize| columns.parquet.get_column_root_idx(*leaf) == root;
        let before = stored.iter().enumerate().take(first).rev();
        let begin = first - before.take_while(|(leaf, _)| is_of_root(leaf)).count();
        let all = (begin..stored.len()).take_while(is_of_root);
        let read = all.map(|leaf| leaves.binary_search(&leaf).ok().map(|_| stored[leaf].as_ref()));
        let nested = NestedColumn::for_field(field, root_type, &read.collect::<Vec<_>>());
        let Some((nested, of_leaves)) = nested.and_then(|nested| {
            let leaves = nested.leaves()?;
            Some((nested, leaves))
        }) else {
            return;
        };
        for (to, leaf) in self.leaves[from..].iter_mut().zip(of_leaves) {
            *to = Some(ColumnDecoder::Leaf(leaf));
        }
        self.nested[at] = Some(nested);
    }

    /// Decodes a chunk of the leaf with index `at`. If that fails, the column is left to the Parquet crate.
    /// Returns whether the chunk is known to be damaged, although the crate may decode it without an error.
    pub(super) fn append(&mut self, at: usize, chunk: &CheckedChunk<'_>) -> bool {
        let column = self.column_of[at];
        let (appended, is_damaged) = match &mut self.leaves[at] {
            None => return false,
            Some(ColumnDecoder::Column(column)) => (column.append(chunk), column.is_damaged()),
            Some(ColumnDecoder::Leaf(_)) if self.nested[column].is_none() => (None, false),
            Some(ColumnDecoder::Leaf(leaf)) => (leaf.append(chunk), leaf.is_damaged()),
        };
        if appended.is_some() {
            return false;
        }
        self.leaves[at] = None;
        self.nested[column] = None;
        is_damaged
    }

    /// Returns the array of each column that was decoded here, and `None` for the others. `guarded` runs code
    /// that may panic.
    pub(super) fn finish<E>(
        self,
        guarded: impl Fn(&mut dyn FnMut() -> Option<ArrayRef>) -> Result<Option<ArrayRef>, E>,
    ) -> Result<Vec<Option<ArrayRef>>, E> {
        let Decoders { leaves, column_of, nested } = self;
        let mut leaves = leaves.into_iter().zip(column_of).peekable();
        let mut arrays = Vec::with_capacity(nested.len());
        for (at, mut nested) in nested.into_iter().enumerate() {
            let mut of_column = Vec::new();
            while let Some((leaf, _)) = leaves.next_if(|(_, column)| *column == at) {
                of_column.push(leaf);
            }
            let mut of_column = of_column.into_iter().collect::<Option<Vec<_>>>();
            arrays.push(guarded(&mut || finish(nested.take(), of_column.take()?))?);
        }
        Ok(arrays)
    }
}

/// Puts the array of a column together from its leaves; `None` if that is left to the Parquet crate.
fn finish<'a>(nested: Option<NestedColumn<'a>>, leaves: Vec<ColumnDecoder<'a>>) -> Option<ArrayRef> {
    let mut leaves = leaves.into_iter();
    let Some(nested) = nested else {
        return match leaves.next()? {
            ColumnDecoder::Column(column) => column.finish(),
            ColumnDecoder::Leaf(_) => None,
        };
    };
    let leaves = leaves.map(|leaf| match leaf {
        ColumnDecoder::Leaf(leaf) => Some(leaf),
        ColumnDecoder::Column(_) => None,
    });
    nested.finish(leaves.collect::<Option<_>>()?)
}
