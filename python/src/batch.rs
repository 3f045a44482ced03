//! A batch as a Python mapping from name to array.

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::FieldRef;
use forebay::loader::{Consumer, Stage};
use forebay::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyIterator, PyList};

use crate::errors;
use crate::schema::{self, Schema};
use crate::{capsule, numpy};

/// Rows for one step: a mapping from column name to numpy array, in the order of the schema.
///
/// An array is made when it is first asked for, and is the same object from then on.
#[pyclass(frozen, mapping, weakref, module = "forebay", name = "Batch")]
pub(crate) struct Batch {
    batch: RecordBatch,
    /// Arrays already made.
    arrays: Py<PyDict>,
    /// Whom the arrays are made for.
    consumer: Option<Consumer>,
}

impl Batch {
    pub(crate) fn new(py: Python<'_>, batch: RecordBatch, consumer: Option<Consumer>) -> Self {
        consumer.iter().for_each(|consumer| consumer.count(Stage::HandOver, 1, 0));
        Batch { batch, arrays: PyDict::new(py).unbind(), consumer }
    }

    /// A column, or the error that names those there are.
    pub(crate) fn lookup(&self, py: Python<'_>, name: &str) -> PyResult<(FieldRef, ArrayRef)> {
        let schema = self.batch.schema_ref();
        match schema.index_of(name) {
            Ok(index) => Ok((schema.fields()[index].clone(), self.batch.column(index).clone())),
            Err(_) => {
                let names: Vec<&str> = self.names().collect();
                let error = Error::new(ErrorKind::UnknownColumn, format!("the batch has no column {name:?}"));
                let hint = match forebay::error::nearest(name, names.iter().copied()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("it has {}", names.join(", ")),
                };
                Err(errors::raise(py, &error.hint(hint)))
            }
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.batch.schema_ref().fields().iter().map(|field| field.name().as_str())
    }
}

#[pymethods]
impl Batch {
    /// Its rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Names and types of its columns.
    #[getter]
    fn schema(&self) -> Schema {
        Schema::new(self.batch.schema())
    }

    /// A column as an object that speaks DLPack and Arrow.
    fn column<'py>(slf: Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("forebay.column")?.getattr("Column")?.call1((slf, name))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let arrays = self.arrays.bind(py);
        if let Some(array) = arrays.get_item(name)? {
            return Ok(array);
        }
        let (field, column) = self.lookup(py, name)?;
        // Two threads may both make it; both get the one that was first.
        let array = match &self.consumer {
            Some(consumer) => {
                let array = consumer.looks(Stage::HandOver, || numpy::array(py, &field, &column))?;
                let bytes = column.to_data().get_slice_memory_size().unwrap_or(0);
                consumer.count(Stage::HandOver, 0, bytes as u64);
                array
            }
            None => numpy::array(py, &field, &column)?,
        };
        arrays.call_method1("setdefault", (name, array))
    }

    fn __len__(&self) -> usize {
        self.batch.num_columns()
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        name.extract::<String>().is_ok_and(|name| self.names().any(|column| column == name))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.names())?.try_iter()
    }

    /// The names of the columns.
    fn keys<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        mapping_view(slf, "KeysView")
    }

    /// The arrays.
    fn values<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        mapping_view(slf, "ValuesView")
    }

    /// Names and arrays.
    fn items<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        mapping_view(slf, "ItemsView")
    }

    /// The array of a column, or `default` where there is no such column.
    #[pyo3(signature = (name, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.__contains__(name) {
            true => Ok(Some(self.__getitem__(py, &name.extract::<String>()?)?)),
            false => Ok(default),
        }
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<capsule::Pair<'py>> {
        // The protocol asks for the closest that there is, and leaves casting to the consumer.
        let _ = requested_schema;
        capsule::batch(py, &self.batch)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema(py, self.batch.schema_ref())
    }

    fn __repr__(&self) -> String {
        let columns: Vec<String> = self
            .batch
            .schema_ref()
            .fields()
            .iter()
            .map(|field| format!("{}: {}", field.name(), schema::describe(field)))
            .collect();
        format!("<forebay.Batch of {} rows: {}>", self.batch.num_rows(), columns.join(", "))
    }
}

/// A live view of a mapping, as `collections.abc` has them.
fn mapping_view<'py>(batch: &Bound<'py, Batch>, class: &str) -> PyResult<Bound<'py, PyAny>> {
    batch.py().import("collections.abc")?.getattr(class)?.call1((batch,))
}
