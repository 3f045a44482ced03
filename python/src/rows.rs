//! Rows that Python made, as Arrow: columns of numbers, texts, lists and structures, from their bytes.
//!
//! `forebay/prepare/values.py` makes these bytes. A node is a tuple of a kind, the validity of its values (a
//! byte for each, or `None`), and the values:
//!
//! | kind | values |
//! |---|---|
//! | a type of numbers or times | their bytes |
//! | `text`, `binary` | offsets of int64, and all bytes |
//! | `list` | offsets of int64, and the node of the items |
//! | `struct` | the number of rows, and name and node of each field |
//! | `tensor` | the number of rows, the shape, and the node of all numbers |

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use forebay::arrow::array::{Array, ArrayData, ArrayRef, RecordBatch, make_array};
use forebay::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use forebay::arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};
use forebay::{Error, Place};
use forebay_arrow::fail::OrFail;
use forebay_cli::row_groups;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::errors::{IntoPython, internal};
use crate::interrupt::interruptible;

/// Rows that Python made, as Arrow. [`write_row_group`] joins several of these and writes them to a file.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct MadeRows(RecordBatch);

#[pymethods]
impl MadeRows {
    #[new]
    fn new(py: Python<'_>, columns: Vec<(String, Bound<'_, PyTuple>)>) -> PyResult<Self> {
        let mut made = Vec::new();
        for (name, node) in &columns {
            let at = |error: Error| error.at(Place::default().column(name.as_str()));
            let (field, values) = column(name, node)?.map_err(at).or_raise(py)?;
            made.push((field, values));
        }
        let (fields, values): (Vec<Field>, Vec<ArrayRef>) = made.into_iter().unzip();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), values).or_fail();
        Ok(MadeRows(batch.or_raise(py)?))
    }

    /// The rows `start..stop`, without a copy.
    fn slice(&self, start: usize, stop: usize) -> PyResult<Self> {
        match start <= stop && stop <= self.0.num_rows() {
            true => Ok(MadeRows(self.0.slice(start, stop - start))),
            false => Err(internal("rows were cut beyond their end")),
        }
    }
}

/// Writes rows to a new file as one row group, with keys and values as the metadata of the file.
#[pyfunction]
pub(crate) fn write_row_group(
    py: Python<'_>,
    path: PathBuf,
    rows: Vec<PyRef<'_, MadeRows>>,
    about: Vec<(String, String)>,
) -> PyResult<()> {
    let batches: Vec<RecordBatch> = rows.iter().map(|rows| rows.0.clone()).collect();
    interruptible(py, move || row_groups::write(&path, &batches, &about))
}

/// Copies the row groups of files into one new file.
#[pyfunction]
pub(crate) fn join_row_groups(py: Python<'_>, parts: Vec<PathBuf>, path: PathBuf) -> PyResult<()> {
    interruptible(py, move || row_groups::join(&parts, &path))
}

/// The field and the values of a node.
fn column(name: &str, node: &Bound<'_, PyTuple>) -> PyResult<forebay::Result<(Field, ArrayRef)>> {
    let (kind, validity, values): (String, Option<Bound<'_, PyBytes>>, Bound<'_, PyAny>) = node.extract()?;
    let nulls = validity.map(|of| NullBuffer::from_iter(of.as_bytes().iter().map(|is_valid| *is_valid != 0)));
    let field = |data_type: DataType| Field::new(name, data_type, true);
    match kind.as_str() {
        "text" | "binary" => {
            let (offsets, bytes): (Bound<'_, PyBytes>, Bound<'_, PyBytes>) = values.extract()?;
            let of = if kind == "text" { DataType::LargeUtf8 } else { DataType::LargeBinary };
            let data = ArrayData::builder(of.clone())
                .len(rows_of(&offsets))
                .add_buffer(buffer(&offsets))
                .add_buffer(buffer(&bytes));
            Ok(data.nulls(nulls).build().or_fail().map(|data| (field(of), make_array(data))))
        }
        "list" => {
            let (offsets, items): (Bound<'_, PyBytes>, Bound<'_, PyTuple>) = values.extract()?;
            let of_items = column("item", &items)?;
            Ok(of_items.and_then(|(item, items)| {
                let of = DataType::LargeList(Arc::new(item));
                let data = ArrayData::builder(of.clone()).len(rows_of(&offsets)).add_buffer(buffer(&offsets));
                let data = data.add_child_data(items.to_data()).nulls(nulls).build().or_fail()?;
                Ok((field(of), make_array(data)))
            }))
        }
        "struct" => {
            let (rows, members): (usize, Vec<(String, Bound<'_, PyTuple>)>) = values.extract()?;
            let members =
                members.iter().map(|(name, node)| column(name, node)).collect::<PyResult<Vec<_>>>()?;
            Ok(members.into_iter().collect::<forebay::Result<Vec<_>>>().and_then(|members| {
                let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = members.into_iter().unzip();
                let of = DataType::Struct(Fields::from(fields));
                let children = arrays.iter().map(|array| array.to_data()).collect();
                let data = ArrayData::builder(of.clone()).len(rows).child_data(children);
                Ok((field(of), make_array(data.nulls(nulls).build().or_fail()?)))
            }))
        }
        "tensor" => {
            let (rows, shape, items): (usize, Vec<usize>, Bound<'_, PyTuple>) = values.extract()?;
            let of_items = column("item", &items)?;
            Ok(of_items.and_then(|(item, items)| {
                let of = tensor(name, &shape, item.data_type().clone());
                let data = ArrayData::builder(of.data_type().clone()).len(rows);
                let data = data.add_child_data(items.to_data()).nulls(nulls).build().or_fail()?;
                Ok((of, make_array(data)))
            }))
        }
        "bool" => {
            let bytes: Bound<'_, PyBytes> = values.extract()?;
            let bytes = bytes.as_bytes();
            let bits = BooleanBuffer::collect_bool(bytes.len(), |at| bytes[at] != 0);
            let data = ArrayData::builder(DataType::Boolean).len(bytes.len()).add_buffer(bits.into_inner());
            let data = data.nulls(nulls).build().or_fail();
            Ok(data.map(|data| (field(DataType::Boolean), make_array(data))))
        }
        of_numbers => {
            let Some(of) = number(of_numbers) else {
                return Err(internal(&format!("{of_numbers} is not a kind of values")));
            };
            let bytes: Bound<'_, PyBytes> = values.extract()?;
            let rows = bytes.as_bytes().len() / of.primitive_width().unwrap_or(1);
            let data = ArrayData::builder(of.clone()).len(rows).add_buffer(buffer(&bytes)).nulls(nulls);
            Ok(data.build().or_fail().map(|data| (field(of), make_array(data))))
        }
    }
}

/// The type that numpy calls `name`, if it is one of numbers or times.
fn number(name: &str) -> Option<DataType> {
    Some(match name {
        "int8" => DataType::Int8,
        "int16" => DataType::Int16,
        "int32" => DataType::Int32,
        "int64" => DataType::Int64,
        "uint8" => DataType::UInt8,
        "uint16" => DataType::UInt16,
        "uint32" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        "float16" => DataType::Float16,
        "float32" => DataType::Float32,
        "float64" => DataType::Float64,
        "datetime64[ms]" => DataType::Timestamp(TimeUnit::Millisecond, None),
        "datetime64[us]" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "datetime64[ns]" => DataType::Timestamp(TimeUnit::Nanosecond, None),
        _ => return None,
    })
}

/// The field of a column of arrays of one shape.
fn tensor(name: &str, shape: &[usize], item: DataType) -> Field {
    let length = shape.iter().product::<usize>() as i32;
    let list = DataType::FixedSizeList(Arc::new(Field::new("item", item, false)), length);
    let sides: Vec<String> = shape.iter().map(ToString::to_string).collect();
    Field::new(name, list, true).with_metadata(HashMap::from([
        ("ARROW:extension:name".to_owned(), "arrow.fixed_shape_tensor".to_owned()),
        ("ARROW:extension:metadata".to_owned(), format!(r#"{{"shape":[{}]}}"#, sides.join(","))),
    ]))
}

/// Copies the bytes into a buffer that is aligned for every type.
fn buffer(bytes: &Bound<'_, PyBytes>) -> Buffer {
    Buffer::from_slice_ref(bytes.as_bytes())
}

/// The number of rows that these offsets delimit.
fn rows_of(offsets: &Bound<'_, PyBytes>) -> usize {
    (offsets.as_bytes().len() / size_of::<i64>()).saturating_sub(1)
}
