//! A batch as a Python mapping from name to array.

use forebay::arrow::array::{Array, ArrayRef, RecordBatch};
use forebay::arrow::datatypes::{FieldRef, Schema};
use forebay::{Error, ErrorKind};
use forebay::{bindings::Consumer, stats::Stage};
use forebay_base::error::escaped;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyDict, PyIterator, PyList, PyString, PyTuple};

use crate::arrays::{self, nulls};
use crate::errors;
use crate::{capsule, schema};

/// Returns a dict from each column's name to its index. It is made once for all batches of an epoch.
pub(crate) fn places(py: Python<'_>, schema: &Schema) -> PyResult<Py<PyDict>> {
    let places = PyDict::new(py);
    for (place, field) in schema.fields().iter().enumerate() {
        places.set_item(PyString::intern(py, field.name()), place)?;
    }
    Ok(places.unbind())
}

/// Rows for one step: a mapping from column name to numpy array, in the order of the schema.
///
/// An array is made when it is first read, and is the same object from then on. It is a view of the batch's
/// memory, which it keeps alive. It is writable, because nothing else uses that memory. In a batch of ``N``
/// rows:
///
/// - numbers and booleans have shape ``(N,)`` and their own type,
/// - decoded images have shape ``(N, H, W, C)`` or ``(N, C, H, W)``,
/// - lists of fixed length and binary of fixed length have shape ``(N, k)``; binary is ``uint8``,
/// - other lists are :class:`Ragged`, whose items are any of these again; a map is a list of its entries, and
///   a vector of Spark ML, dense or sparse, is the list of all its values,
/// - arrays in which several dimensions differ from row to row are a :class:`Ragged` that returns each row as
///   an array,
/// - a structure is a dict of its fields, each of them any of these again,
/// - times are ``datetime64`` or ``timedelta64``,
/// - text, other binary and decimals are arrays of Python objects, copied one by one; text that is decoded as
///   :class:`Text` has numpy's ``StringDType``, and text that is decoded as :class:`Json` is the objects that
///   it describes.
///
/// Only loaders make batches; the class cannot be called. :meth:`to_arrow` converts a batch without a copy.
///
/// Examples
/// --------
/// >>> import forebay as fb
/// >>> batch = fb.Dataset("data/train/").sample(4)
/// >>> list(batch)
/// ['image', 'label', 'id']
/// >>> batch["label"]
/// array([0, 1, 2, 3])
#[pyclass(frozen, mapping, weakref, module = "forebay", name = "Batch")]
pub(crate) struct Batch {
    batch: RecordBatch,
    /// The index of each column by its name.
    places: Py<PyDict>,
    /// The array of each column, once it was made.
    arrays: Box<[PyOnceLock<Py<PyAny>>]>,
    /// Set once the arrays of all columns of numbers were made.
    has_numbers: PyOnceLock<()>,
    /// Records for the statistics how long it takes to make arrays when they are first read.
    consumer: Option<Consumer>,
    /// The origin of the batch, which decides the remedies that an error about a null suggests.
    pub(crate) of: nulls::BatchOrigin,
}

impl Batch {
    pub(crate) fn new(
        batch: RecordBatch,
        places: Py<PyDict>,
        consumer: Option<Consumer>,
        of: nulls::BatchOrigin,
    ) -> Self {
        consumer.iter().for_each(|consumer| consumer.count(Stage::HandOver, 1, 0));
        let arrays = (0..batch.num_columns()).map(|_| PyOnceLock::new()).collect();
        Batch { batch, places, arrays, has_numbers: PyOnceLock::new(), consumer, of }
    }

    /// The index of a column, or the error for a column that the batch does not have.
    fn place(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<usize> {
        let Ok(text) = name.cast::<PyString>() else {
            let kind = name.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "a batch has columns by name, got {kind} (pass a str)"
            )));
        };
        let Some(place) = self.places.bind(py).get_item(name)? else {
            let name = text.to_cow()?;
            let schema = self.batch.schema_ref();
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            let error = Error::new(ErrorKind::UnknownColumn, format!("the batch has no column {name:?}"));
            let hint = match forebay_base::error::nearest(&name, names.iter().copied()) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("it has {}", names.join(", ")),
            };
            return Err(errors::raise(py, &error.hint(hint)));
        };
        place.extract()
    }

    /// The field and the values of a column, or the error for a column that the batch does not have.
    pub(crate) fn lookup(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<(&FieldRef, &ArrayRef)> {
        Ok(self.at(self.place(py, name)?))
    }

    /// The rows of the batch as an Arrow record batch.
    pub(crate) fn rows(&self) -> &RecordBatch {
        &self.batch
    }

    fn at(&self, place: usize) -> (&FieldRef, &ArrayRef) {
        (&self.batch.schema_ref().fields()[place], self.batch.column(place))
    }

    /// Makes the arrays of all columns of numbers when the first array of the batch is read, and records how
    /// long this takes in all. The arrays are views: to time each of them would take longer than to make it.
    fn make_numbers(&self, py: Python<'_>) -> PyResult<()> {
        if self.has_numbers.set(py, ()).is_err() {
            return Ok(());
        }
        let make = || {
            let mut made = 0;
            for (place, slot) in self.arrays.iter().enumerate() {
                let (field, column) = self.at(place);
                if let Some(array) = arrays::numbers(py, field, column) {
                    made += bytes(column.as_ref());
                    // If another thread made the array first, that array stays.
                    let _ = slot.set(py, array?.unbind());
                }
            }
            Ok(((), made))
        };
        match &self.consumer {
            Some(consumer) => consumer.looks(Stage::HandOver, make),
            None => make().map(drop),
        }
    }

    /// Makes a new array of the column with the index `place`.
    fn array<'py>(&self, py: Python<'py>, place: usize) -> PyResult<Bound<'py, PyAny>> {
        let (field, column) = self.at(place);
        let array = || arrays::array(py, field, column, self.of);
        let Some(consumer) = &self.consumer else { return array() };
        consumer.looks(Stage::HandOver, || Ok((array()?, bytes(column.as_ref()))))
    }
}

/// The size of a column's rows, in bytes.
fn bytes(column: &dyn Array) -> u64 {
    let bytes = match column.data_type().primitive_width() {
        Some(width) => width * column.len(),
        None => column.to_data().get_slice_memory_size().unwrap_or(0),
    };
    bytes as u64
}

/// The message for frameworks that call the class of a batch to make a mapping with tensors on a device.
const NO_CONSTRUCTOR: &str = "a forebay.Batch cannot be constructed (to move batches to a device, pass \
     forebay.torch.batches(loader) in place of the loader, or dict(batch))";

const NO_PICKLE: &str = "a forebay.Batch is memory of this process and is not pickled (send dict(batch), or \
     batch.to_arrow())";

const NO_ARRAY: &str = "a forebay.Batch is several columns, and not one array (take one by its name, as batch[\"label\"]; \
     for a table pass dict(batch), or batch.to_arrow(), as in batch.to_arrow().to_pandas())";

#[pymethods]
impl Batch {
    /// Refuses to construct a batch, because only loaders make batches.
    #[new]
    #[pyo3(signature = (*_args, **_named))]
    fn refuse(_args: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Err(PyTypeError::new_err(NO_CONSTRUCTOR))
    }

    /// Refuses to pickle a batch, and says what to pickle instead.
    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(NO_PICKLE))
    }

    /// Refuses the conversion by numpy and pandas, which would make an array of the names of the columns.
    #[pyo3(signature = (*_args, **_named))]
    fn __array__(&self, _args: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        Err(PyTypeError::new_err(NO_ARRAY))
    }

    /// Number of rows in the batch. ``len(batch)`` is the number of columns, as for any mapping.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Names and types of the columns.
    #[getter]
    fn schema(&self) -> schema::Schema {
        schema::Schema::new(self.batch.schema())
    }

    /// One column as an object that supports DLPack and Arrow.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     Name of the column.
    ///
    /// Returns
    /// -------
    /// Column
    ///     The column, over the batch's memory.
    ///
    /// Raises
    /// ------
    /// UnknownColumnError
    ///     The batch has no such column.
    fn column<'py>(slf: Bound<'py, Self>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("forebay.batch.column")?.getattr("Column")?.call1((slf, name))
    }

    /// The batch as Arrow, without a copy: nulls, text and nested values as they are stored.
    ///
    /// Returns
    /// -------
    /// pyarrow.RecordBatch
    ///     A record batch over the batch's memory, which it keeps alive. Needs pyarrow; other packages that
    ///     read Arrow take the batch itself.
    ///
    /// Examples
    /// --------
    /// >>> import forebay as fb
    /// >>> fb.Dataset("data/train/").sample(4, columns=["label"]).to_arrow().column("label").to_pylist()
    /// [0, 1, 2, 3]
    fn to_arrow<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("record_batch", (slf,))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let place = self.place(py, name)?;
        let slot = &self.arrays[place];
        let array = match slot.get(py) {
            Some(array) => array,
            None => {
                self.make_numbers(py)?;
                match slot.get(py) {
                    Some(array) => array,
                    None => {
                        // If two threads make the array, both get the first one.
                        let made = self.array(py, place)?.unbind();
                        slot.get_or_init(py, || made)
                    }
                }
            }
        };
        Ok(array.bind(py).clone())
    }

    fn __len__(&self) -> usize {
        self.batch.num_columns()
    }

    fn __contains__(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> bool {
        self.places.bind(py).contains(name).unwrap_or(false)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.places.bind(py).try_iter()
    }

    /// Names of the columns.
    fn keys<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        mapping_view(slf, &CLASS, "KeysView")
    }

    /// Arrays of the columns.
    fn values<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        mapping_view(slf, &CLASS, "ValuesView")
    }

    /// Names and arrays of the columns.
    fn items<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        mapping_view(slf, &CLASS, "ItemsView")
    }

    /// The array of a column, or ``default`` if there is no such column.
    #[pyo3(signature = (name, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.__contains__(py, name) {
            true => Ok(Some(self.__getitem__(py, name)?)),
            false => Ok(default),
        }
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<capsule::Pair<'py>> {
        // The protocol permits any schema that is close to the requested one; the consumer casts the columns.
        let _ = requested_schema;
        capsule::batch(py, &self.batch)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema(py, self.batch.schema_ref())
    }

    /// The rows of a column that has structures in lists, as Python objects; ``None`` for any other column.
    fn _records<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let (field, column) = self.lookup(py, name)?;
        arrays::records::list(py, field, column)
    }

    /// The rows of a column as Python objects, with ``None`` for each null.
    fn _objects<'py>(&self, py: Python<'py>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let (field, column) = self.lookup(py, name)?;
        arrays::records::of_any(py, field, column)
    }

    /// Names, types and first values of the columns as HTML, for a notebook.
    fn _repr_html_<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let types = schema::described(slf.get().batch.schema_ref());
        slf.py().import("forebay.reports.notebook")?.call_method1("of_batch", (slf, types))
    }

    fn __repr__(&self) -> String {
        let columns: Vec<String> = self
            .batch
            .schema_ref()
            .fields()
            .iter()
            .map(|field| format!("{}: {}", escaped(field.name()), schema::describe(field)))
            .collect();
        format!("<forebay.Batch of {} rows: {}>", self.batch.num_rows(), columns.join(", "))
    }
}

/// Returns a live view of the batch: an instance of the class `name` of `collections.abc`, such as
/// `KeysView`. `class` keeps the class, because an import takes as long as several arrays of the batch.
fn mapping_view<'py>(
    batch: &Bound<'py, Batch>,
    class: &PyOnceLock<Py<PyAny>>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let py = batch.py();
    let find = || Ok::<_, PyErr>(py.import("collections.abc")?.getattr(name)?.unbind());
    class.get_or_try_init(py, find)?.bind(py).call1((batch,))
}
