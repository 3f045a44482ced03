//! Names and types of the delivered columns.

use forebay::arrow::datatypes::{DataType, FieldRef, SchemaRef};
use forebay::column::TextFormat;
use forebay_arrow::names::TypeName;
use forebay_base::error::escaped;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::dense::Element;
use crate::{capsule, dense};

/// Names and types of columns; ``pyarrow.schema(schema)`` converts it.
///
/// Examples
/// --------
/// >>> import forebay as fb
/// >>> fb.Loader("data/train/", decode={"image": fb.Image.resize(32, 48)}).schema
/// image: uint8[32, 48, 3] not null
/// label: int64
/// id: int64
#[pyclass(frozen, module = "forebay", name = "Schema")]
pub(crate) struct Schema {
    schema: SchemaRef,
}

/// The name of a column, its kind, the type of its elements, and the shape of a row.
type ColumnLayout<'py> = (String, &'static str, Option<&'static str>, Bound<'py, PyTuple>);

impl Schema {
    pub(crate) fn new(schema: SchemaRef) -> Self {
        Schema { schema }
    }

    /// The Arrow schema.
    pub(crate) fn fields(&self) -> &SchemaRef {
        &self.schema
    }
}

#[pymethods]
impl Schema {
    /// Names of the columns, in order.
    #[getter]
    fn names(&self) -> Vec<&str> {
        self.schema.fields().iter().map(|field| field.name().as_str()).collect()
    }

    /// How each column is delivered in a batch.
    ///
    /// Returns
    /// -------
    /// list of tuple
    ///     For each column its name, its kind ("dense", "ragged", "struct", "text", "bytes" or "object"), the
    ///     type of an element as numpy writes it or "bfloat16" (``None`` if elements have no such type), and
    ///     the shape of one row, with ``None`` for a side that differs from batch to batch.
    ///
    /// Examples
    /// --------
    /// >>> import forebay as fb
    /// >>> fb.Loader("data/train/", columns=["label", "image"]).schema.layout()
    /// [('label', 'dense', '<i8', ()), ('image', 'bytes', None, ())]
    fn layout<'py>(&self, py: Python<'py>) -> PyResult<Vec<ColumnLayout<'py>>> {
        self.schema
            .fields()
            .iter()
            .map(|field| {
                let (kind, element, shape) = layout(field);
                Ok((field.name().clone(), kind, element, PyTuple::new(py, shape)?))
            })
            .collect()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema(py, &self.schema)
    }

    fn __len__(&self) -> usize {
        self.schema.fields().len()
    }

    fn __contains__(&self, name: &str) -> bool {
        self.schema.column_with_name(name).is_some()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Schema>().is_ok_and(|other| other.get().schema == self.schema)
    }

    /// The names and types of the columns as HTML, for notebooks.
    fn _repr_html_<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("forebay.reports.notebook")?
            .call_method1("of_schema", (self.names(), described(&self.schema)))
    }

    fn __repr__(&self) -> String {
        let lines: Vec<String> = self
            .schema
            .fields()
            .iter()
            .map(|field| format!("{}: {}", escaped(field.name()), describe(field)))
            .collect();
        lines.join("\n")
    }
}

fn layout(field: &FieldRef) -> (&'static str, Option<&'static str>, Vec<Option<usize>>) {
    if let Some((element, shape)) = dense::layout(field) {
        return ("dense", Some(element.name()), shape);
    }
    if TextFormat::from_field(field) == Some(TextFormat::Json) {
        return ("object", None, Vec::new());
    }
    match field.data_type() {
        DataType::LargeList(item) => {
            ("ragged", dense::element(item.data_type()).map(Element::name), Vec::new())
        }
        DataType::FixedSizeList(..) | DataType::Map(..) => ("ragged", None, Vec::new()),
        DataType::Struct(_) => ("struct", None, Vec::new()),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ("text", None, Vec::new()),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => ("bytes", None, Vec::new()),
        _ => ("object", None, Vec::new()),
    }
}

/// Describes the type of each column in words.
pub(crate) fn described(schema: &SchemaRef) -> Vec<String> {
    schema.fields().iter().map(describe).collect()
}

/// Describes the type of a column in words: the name of the type, or the element type and the shape of a
/// tensor. Control characters in names are escaped.
pub(crate) fn describe(field: &FieldRef) -> String {
    let nullable = if field.is_nullable() { "" } else { " not null" };
    let described = match dense::layout(field) {
        Some((Element::BFloat16, shape)) => format!("bfloat16[{}]{nullable}", sides(&shape)),
        Some((_, shape)) if !shape.is_empty() => match field.data_type() {
            DataType::FixedSizeList(item, _) | DataType::LargeList(item) => {
                format!("{}[{}]{nullable}", TypeName(item.data_type()), sides(&shape))
            }
            other => format!("{}{nullable}", TypeName(other)),
        },
        _ => format!("{}{nullable}", TypeName(field.data_type())),
    };
    escaped(&described).into_owned()
}

/// The shape of a row, with a question mark for a side that differs from batch to batch.
fn sides(shape: &[Option<usize>]) -> String {
    let sides: Vec<String> =
        shape.iter().map(|side| side.map_or_else(|| "?".to_owned(), |side| side.to_string())).collect();
    sides.join(", ")
}
