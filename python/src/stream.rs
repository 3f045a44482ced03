//! Exports the batches of an epoch as an Arrow stream, which DuckDB, Polars and pyarrow can read.

use std::sync::Arc;

use forebay::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, FixedSizeListArray, RecordBatch, RecordBatchOptions,
    RecordBatchReader, make_array,
};
use forebay::arrow::buffer::NullBuffer;
use forebay::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use forebay::arrow::error::ArrowError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyIterator};

use crate::batch::Batch;
use crate::capsule;
use crate::schema;

/// Returns an `arrow_array_stream` capsule over the batches of an epoch. `begin` starts the epoch; it is
/// called when the consumer asks for the first batch, and batches are taken one at a time as the consumer
/// asks for them. `masks` pairs columns with the mask columns that become their validity.
#[pyfunction]
pub(crate) fn arrow_stream<'py>(
    py: Python<'py>,
    schema: &schema::Schema,
    begin: Py<PyAny>,
    masks: Vec<(String, String)>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let (schema, columns) = columned(schema, &masks);
    capsule::stream(py, Box::new(Batches { at: At::Beginning(begin), schema, columns }))
}

/// Returns the schema of the stream that [`arrow_stream`] makes with these masks, as an `arrow_schema`
/// capsule.
#[pyfunction]
pub(crate) fn arrow_schema<'py>(
    py: Python<'py>,
    schema: &schema::Schema,
    masks: Vec<(String, String)>,
) -> PyResult<Bound<'py, PyCapsule>> {
    capsule::schema(py, &columned(schema, &masks).0)
}

/// Returns the schema of a stream, and its columns: all columns except masks, each with its mask if it has
/// one.
fn columned(schema: &schema::Schema, masks: &[(String, String)]) -> (SchemaRef, Vec<Columned>) {
    let stored = schema.fields();
    let place = |name: &str| stored.index_of(name).ok();
    let masks = masks.iter().filter_map(|(column, mask)| Some((place(column)?, place(mask)?)));
    let masks: Vec<(usize, usize)> = masks.collect();
    let columns: Vec<Columned> = (0..stored.fields().len())
        .filter(|at| !masks.iter().any(|(_, mask)| mask == at))
        .map(|at| (at, masks.iter().find(|(column, _)| *column == at).map(|(_, mask)| *mask)))
        .collect();
    let fields = columns.iter().map(|(at, mask)| {
        let field = &stored.fields()[*at];
        mask.map_or_else(|| field.clone(), |mask| nullable(field, &stored.fields()[mask]))
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<FieldRef>>()));
    (schema, columns)
}

/// The indices in a batch of a column and of its mask.
type Columned = (usize, Option<usize>);

/// The state of a stream.
enum At {
    /// No batch was requested yet. This function begins the epoch.
    Beginning(Py<PyAny>),
    Epoch(Py<PyIterator>),
    End,
}

struct Batches {
    at: At,
    schema: SchemaRef,
    columns: Vec<Columned>,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match Python::attach(|py| self.pull(py)) {
            Ok(Some(batch)) => Some(self.with_validity(&batch)),
            Ok(None) => {
                self.at = At::End;
                None
            }
            Err(error) => {
                self.at = At::End;
                let text = Python::attach(|py| error.value(py).to_string());
                Some(Err(ArrowError::ExternalError(text.into())))
            }
        }
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl Batches {
    /// The next batch of the epoch; `None` after the last.
    fn pull(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        if let At::Beginning(begin) = &self.at {
            self.at = At::Epoch(begin.bind(py).call0()?.cast_into::<PyIterator>()?.unbind());
        }
        let At::Epoch(epoch) = &self.at else { return Ok(None) };
        match epoch.bind(py).clone().next() {
            Some(batch) => Ok(Some(batch?.cast::<Batch>()?.get().rows().clone())),
            None => Ok(None),
        }
    }

    /// Converts a batch to the columns of the stream, in which masks have become validity bitmaps.
    fn with_validity(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = self.columns.iter().zip(self.schema.fields()).map(|((at, mask), field)| {
            let column = batch.column(*at);
            mask.map_or_else(|| Ok(column.clone()), |mask| masked(field, column, batch.column(mask)))
        });
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns.collect::<Result<_, _>>()?, &options)
    }
}

/// Makes a column's field nullable if `mask` marks null rows, and the field's items if it marks null values
/// in rows.
fn nullable(field: &FieldRef, mask: &Field) -> FieldRef {
    let (of_values, field) = (*mask.data_type() != DataType::Boolean, field.as_ref().clone());
    Arc::new(match field.data_type().clone() {
        DataType::FixedSizeList(item, length) if of_values => {
            let item = Arc::new(item.as_ref().clone().with_nullable(true));
            field.with_data_type(DataType::FixedSizeList(item, length))
        }
        _ => field.with_nullable(true),
    })
}

/// Applies a mask to a column: its rows, or the values in its lists, become null where the mask is false.
fn masked(field: &Field, column: &ArrayRef, mask: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match (field.data_type(), mask.as_fixed_size_list_opt(), column.as_fixed_size_list_opt()) {
        (DataType::FixedSizeList(item, length), Some(mask), Some(lists)) => {
            let values = with_nulls(lists.values(), mask.values().as_boolean())?;
            let lists = FixedSizeListArray::try_new(item.clone(), *length, values, lists.nulls().cloned())?;
            Ok(Arc::new(lists))
        }
        _ => with_nulls(column, mask.as_boolean()),
    }
}

/// Makes an array null where the mask is false; values that were null before remain null.
fn with_nulls(array: &ArrayRef, mask: &BooleanArray) -> Result<ArrayRef, ArrowError> {
    let nulls = NullBuffer::union(Some(&NullBuffer::new(mask.values().clone())), array.nulls());
    Ok(make_array(array.to_data().into_builder().nulls(nulls).build()?))
}
