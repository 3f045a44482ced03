//! Vectors and matrices of Spark ML, which Parquet stores as structures.
//!
//! Spark marks such columns in a file's metadata, but programs that rewrite the file keep only the
//! structures, so they are recognized by their fields.

mod rows;

use std::sync::Arc;

use super::array::{ArrayRef, Int8Array, Int32Array, ListArray, StructArray};
use super::buffer::NullBuffer;
use super::datatypes::{DataType, Field, Fields, Float64Type, Int32Type};
use super::nested::with_fields;

pub use rows::Vectors;

/// The structures in which Spark ML stores vectors and matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SparkMl {
    /// A vector: `struct<type: int8, size: int32, indices: list<int32>, values: list<double>>`.
    Vector,
    /// A matrix: `struct<type: int8, numRows: int32, numCols: int32, colPtrs: list<int32>, rowIndices:
    /// list<int32>, values: list<double>, isTransposed: bool>`.
    Matrix,
}

/// The kind of value that a field of a Spark ML structure holds.
#[derive(Clone, Copy)]
enum VectorPart {
    Byte,
    Integer,
    Integers,
    Doubles,
    Flag,
}

const VECTOR: [(&str, VectorPart); 4] = [
    (TYPE, VectorPart::Byte),
    ("size", VectorPart::Integer),
    ("indices", VectorPart::Integers),
    (VALUES, VectorPart::Doubles),
];

const MATRIX: [(&str, VectorPart); 7] = [
    (TYPE, VectorPart::Byte),
    ("numRows", VectorPart::Integer),
    ("numCols", VectorPart::Integer),
    ("colPtrs", VectorPart::Integers),
    ("rowIndices", VectorPart::Integers),
    (VALUES, VectorPart::Doubles),
    ("isTransposed", VectorPart::Flag),
];

/// The name of the field that says whether a vector or matrix is sparse.
pub const TYPE: &str = "type";
/// The name of the field with the stored values: all values of a dense vector or matrix, or the listed ones
/// of a sparse one.
pub const VALUES: &str = "values";

/// The value of the field `type` in a sparse vector, which stores only the listed values.
pub const SPARSE: i8 = 0;
/// The value of the field `type` in a dense vector, which stores all values.
pub const DENSE: i8 = 1;

impl SparkMl {
    /// Recognizes a type with exactly the fields of a vector or a matrix. It does not matter which of the
    /// fields may be null.
    pub fn from_type(data_type: &DataType) -> Option<Self> {
        let DataType::Struct(fields) = data_type else { return None };
        let are = |parts: &[(&str, VectorPart)]| {
            let mut each = fields.iter().zip(parts);
            fields.len() == parts.len()
                && each.all(|(field, (name, part))| field.name() == name && part.is(field.data_type()))
        };
        if are(&VECTOR) {
            return Some(SparkMl::Vector);
        }
        are(&MATRIX).then_some(SparkMl::Matrix)
    }

    /// The name of the type in messages.
    pub fn name(self) -> &'static str {
        match self {
            SparkMl::Vector => "vector of Spark ML",
            SparkMl::Matrix => "matrix of Spark ML",
        }
    }

    /// The name of the field with the indices of the stored values.
    pub fn places(self) -> &'static str {
        match self {
            SparkMl::Vector => "indices",
            SparkMl::Matrix => "rowIndices",
        }
    }
}

impl VectorPart {
    fn is(self, data_type: &DataType) -> bool {
        let item = match data_type {
            DataType::List(item) | DataType::LargeList(item) => Some(item.data_type()),
            _ => None,
        };
        match self {
            VectorPart::Byte => *data_type == DataType::Int8,
            VectorPart::Integer => *data_type == DataType::Int32,
            VectorPart::Integers => item == Some(&DataType::Int32),
            VectorPart::Doubles => item == Some(&DataType::Float64),
            VectorPart::Flag => *data_type == DataType::Boolean,
        }
    }
}

/// Whether a type is a vector or contains vectors at any depth.
pub fn holds_vectors(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => {
            SparkMl::from_type(data_type) == Some(SparkMl::Vector)
                || fields.iter().any(|field| holds_vectors(field.data_type()))
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => holds_vectors(item.data_type()),
        _ => false,
    }
}

/// The field with its vectors, at any depth, replaced by lists of all their values.
pub fn with_lists(field: &Field) -> Field {
    field.clone().with_data_type(lists_of(field.data_type()))
}

/// The type with its vectors, at any depth, replaced by lists of all their values.
pub fn lists_of(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Struct(fields) if SparkMl::from_type(data_type) == Some(SparkMl::Vector) => {
            fields.last().map_or(DataType::Null, |values| values.data_type().clone())
        }
        other => with_fields(other, with_lists),
    }
}

/// The four fields of one vector: its type, its size, its indices and its values.
pub type Stored = (i8, Option<i32>, Option<Vec<i32>>, Option<Vec<f64>>);

/// A column of vectors as Spark stores it.
pub fn stored(rows: &[Option<Stored>]) -> StructArray {
    let fields = |row: &Option<Stored>| row.clone().unwrap_or((SPARSE, None, None, None));
    let each: Vec<Stored> = rows.iter().map(fields).collect();
    let indices = each.iter().map(|row| row.2.clone().map(|list| list.into_iter().map(Some)));
    let values = each.iter().map(|row| row.3.clone().map(|list| list.into_iter().map(Some)));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int8Array::from_iter_values(each.iter().map(|row| row.0))),
        Arc::new(Int32Array::from_iter(each.iter().map(|row| row.1))),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(indices)),
        Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(values)),
    ];
    let field = |((name, _), column): (&(&str, VectorPart), &ArrayRef)| {
        Field::new(*name, column.data_type().clone(), true)
    };
    let fields: Fields = VECTOR.iter().zip(&columns).map(field).collect();
    let nulls = NullBuffer::from_iter(rows.iter().map(Option::is_some));
    StructArray::new(fields, columns, Some(nulls))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The type of vectors in files that Spark writes.
    pub(crate) fn vector() -> DataType {
        DataType::Struct(fields(&VECTOR))
    }

    fn fields(parts: &[(&str, VectorPart)]) -> Fields {
        let list = |item| DataType::List(Arc::new(Field::new("element", item, false)));
        let each = parts.iter().map(|(name, part)| {
            let data_type = match part {
                VectorPart::Byte => DataType::Int8,
                VectorPart::Integer => DataType::Int32,
                VectorPart::Integers => list(DataType::Int32),
                VectorPart::Doubles => list(DataType::Float64),
                VectorPart::Flag => DataType::Boolean,
            };
            Field::new(*name, data_type, *name != TYPE)
        });
        each.collect()
    }

    #[test]
    fn vectors_and_matrices_are_known_by_all_of_their_fields() {
        assert_eq!(SparkMl::from_type(&vector()), Some(SparkMl::Vector));
        assert_eq!(SparkMl::from_type(&DataType::Struct(fields(&MATRIX))), Some(SparkMl::Matrix));
        let others = [&VECTOR[1..], &VECTOR[..3], &MATRIX[..6]];
        assert!(others.iter().all(|parts| SparkMl::from_type(&DataType::Struct(fields(parts))).is_none()));
        let mut wider: Vec<_> = fields(&VECTOR).iter().cloned().collect();
        wider[1] = Arc::new(Field::new("size", DataType::Int64, true));
        assert_eq!(SparkMl::from_type(&DataType::Struct(wider.into())), None);
    }

    #[test]
    fn vectors_are_lists_at_any_depth() {
        let list = |item| DataType::List(Arc::new(Field::new("element", item, false)));
        let structure = |inside| DataType::Struct(vec![Field::new("x", inside, true)].into());
        for around in [|inside| inside, structure, list] {
            assert!(holds_vectors(&around(vector())));
            assert_eq!(lists_of(&around(vector())), around(list(DataType::Float64)));
        }
        let other = structure(DataType::Int8);
        assert!(!holds_vectors(&other));
        assert_eq!(lists_of(&other), other);
    }
}
