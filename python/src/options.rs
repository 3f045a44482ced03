//! Lets serde read Python values: the keywords of `forebay.Loader` become the library's options of the same
//! names, so that a new option needs no change in this file.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde::de::value::{Error, MapAccessDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};

use crate::image::Image;

/// Reads options of type `T` from a dict. Keys whose value is `None` are left out, as if they were not given.
pub(crate) fn read<T: DeserializeOwned>(options: &Bound<'_, PyDict>) -> forebay::Result<T> {
    let given = options.iter().filter(|(_, value)| !value.is_none());
    let map = MapDeserializer::new(given.map(|(key, value)| (PythonValue(key), PythonValue(value))));
    T::deserialize(map).map_err(|error: Error| forebay::Error::invalid(error.to_string()))
}

/// A Python value that serde can read: `None`, a bool, number, str, bytes, dict, list, tuple or image.
struct PythonValue<'py>(Bound<'py, PyAny>);

impl<'py> PythonValue<'py> {
    fn text(&self) -> Result<String, Error> {
        self.0.extract().map_err(Error::custom)
    }
}

impl<'de> IntoDeserializer<'de, Error> for PythonValue<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for PythonValue<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let value = &self.0;
        if value.is_none() {
            visitor.visit_unit()
        } else if let Ok(truth) = value.cast::<PyBool>() {
            // Booleans are tested before numbers, because `True` is also an int in Python.
            visitor.visit_bool(truth.is_true())
        } else if value.is_instance_of::<PyInt>() {
            match value.extract::<u64>() {
                Ok(number) => visitor.visit_u64(number),
                Err(_) => visitor.visit_i64(value.extract().map_err(Error::custom)?),
            }
        } else if let Ok(number) = value.cast::<PyFloat>() {
            visitor.visit_f64(number.value())
        } else if value.is_instance_of::<PyString>() {
            visitor.visit_string(self.text()?)
        } else if let Ok(bytes) = value.cast::<PyBytes>() {
            visitor.visit_bytes(bytes.as_bytes())
        } else if let Ok(dict) = value.cast::<PyDict>() {
            visitor.visit_map(MapDeserializer::new(
                dict.iter().map(|(key, value)| (PythonValue(key), PythonValue(value))),
            ))
        } else if let Ok(list) = value.cast::<PyList>() {
            visitor.visit_seq(SeqDeserializer::new(list.iter().map(PythonValue)))
        } else if let Ok(tuple) = value.cast::<PyTuple>() {
            visitor.visit_seq(SeqDeserializer::new(tuple.iter().map(PythonValue)))
        } else if let Ok(image) = value.cast::<Image>() {
            let spec = serde_json::to_value(image.get().spec()).map_err(Error::custom)?;
            spec.deserialize_any(visitor).map_err(Error::custom)
        } else {
            Err(Error::custom(format!("cannot read a {}", value.get_type())))
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.is_none() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0.cast::<PyDict>() {
            Ok(dict) => {
                let map = MapDeserializer::new(
                    dict.iter().map(|(key, value)| (PythonValue(key), PythonValue(value))),
                );
                visitor.visit_enum(MapAccessDeserializer::new(map))
            }
            Err(_) => visitor.visit_enum(self.text()?.into_deserializer()),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}
