//! Reads the schema of a Petastorm data set, as tuples for Python.

use std::collections::BTreeMap;

use forebay::petastorm::{Codec, Field, SparkType, schema};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::interrupt::interruptible;

/// A field of a schema: its name, its type, its shape, its codec, and whether it may be null.
type PlainField<'py> = (String, String, Bound<'py, PyTuple>, Option<Bound<'py, PyTuple>>, bool);

/// The name of the schema that is stored beside the files, and its fields; ``None`` if there is no schema.
#[pyfunction]
pub(crate) fn petastorm_schema(
    py: Python<'_>,
    url: String,
    store_options: BTreeMap<String, String>,
) -> PyResult<Option<(String, Vec<PlainField<'_>>)>> {
    let Some(schema) = interruptible(py, move || schema(url, &store_options))? else { return Ok(None) };
    let fields = schema.fields.into_iter().map(|field| plain(py, field)).collect::<PyResult<_>>()?;
    Ok(Some((schema.name, fields)))
}

fn plain(py: Python<'_>, field: Field) -> PyResult<PlainField<'_>> {
    let codec = field.codec.map(|codec| described(py, codec)).transpose()?;
    Ok((field.name, field.dtype.to_string(), PyTuple::new(py, field.shape)?, codec, field.nullable))
}

/// A codec (which says how a cell is encoded) as a tuple: its kind, followed by its arguments.
fn described(py: Python<'_>, codec: Codec) -> PyResult<Bound<'_, PyTuple>> {
    match codec {
        Codec::Scalar(spark_type) => {
            let mut parts = vec!["scalar".into_bound_py_any(py)?];
            parts.extend(type_parts(py, &spark_type)?);
            PyTuple::new(py, parts)
        }
        Codec::Ndarray => ("ndarray",).into_pyobject(py),
        Codec::CompressedNdarray => ("compressed_ndarray",).into_pyobject(py),
        Codec::CompressedImage { format, quality } => ("image", format, quality).into_pyobject(py),
    }
}

/// A Spark type as a list: its name, followed by its arguments.
fn type_parts<'py>(py: Python<'py>, spark_type: &SparkType) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let written = spark_type.to_string();
    let name = written.split_once('(').map_or(&*written, |(name, _)| name).into_bound_py_any(py)?;
    Ok(match spark_type {
        SparkType::Decimal { precision, scale } => {
            vec![name, precision.into_bound_py_any(py)?, scale.into_bound_py_any(py)?]
        }
        SparkType::Char(length) | SparkType::Varchar(length) => vec![name, length.into_bound_py_any(py)?],
        SparkType::Array(element) => {
            vec![name, PyTuple::new(py, type_parts(py, element)?)?.into_any()]
        }
        _ => vec![name],
    })
}
