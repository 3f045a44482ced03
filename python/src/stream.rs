//! The batches of an epoch as a stream of Arrow, which DuckDB, Polars and pyarrow read as a whole.

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

/// An `arrow_array_stream` capsule of the batches of an epoch. `begin` is called for the epoch when the
/// consumer asks for its first batch, and no batch is pulled before the consumer asks for it. `masks` has the
/// columns whose masks become their validity, each with its mask.
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

/// Returns the schema of an `arrow_array_stream` capsule with these masks, as an `arrow_schema` capsule.
#[pyfunction]
pub(crate) fn arrow_schema<'py>(
    py: Python<'py>,
    schema: &schema::Schema,
    masks: Vec<(String, String)>,
) -> PyResult<Bound<'py, PyCapsule>> {
    capsule::schema(py, &columned(schema, &masks).0)
}

/// Finds the columns of a stream and their schema.
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

/// The positions of a column and of its mask in a batch.
type Columned = (usize, Option<usize>);

/// The progress of a stream.
enum At {
    /// No batch was requested yet. The function begins the epoch.
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

    /// The columns of a batch, with masks as validity.
    fn with_validity(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = self.columns.iter().zip(self.schema.fields()).map(|((at, mask), field)| {
            let column = batch.column(*at);
            mask.map_or_else(|| Ok(column.clone()), |mask| masked(field, column, batch.column(mask)))
        });
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns.collect::<Result<_, _>>()?, &options)
    }
}

/// The field of a column that takes its validity from a mask: of whole rows, or of the values in them.
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

/// The column `field` with the validity that its mask has.
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

/// An array that is null where the mask is false, or where it was null before.
fn with_nulls(array: &ArrayRef, mask: &BooleanArray) -> Result<ArrayRef, ArrowError> {
    let nulls = NullBuffer::union(Some(&NullBuffer::new(mask.values().clone())), array.nulls());
    Ok(make_array(array.to_data().into_builder().nulls(nulls).build()?))
}
