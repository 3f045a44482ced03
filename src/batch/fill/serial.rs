//! Serializes a [`Fill`] (a value that replaces nulls) as a number or a text; bytes, NaN and infinities
//! become an object.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{self, Serialize, SerializeMap, Serializer};

use super::Fill;

/// The key of bytes, which are written as a list of numbers.
const BYTES: &str = "bytes";
/// The key of a number that JSON cannot represent, which is written as `"NaN"`, `"inf"` or `"-inf"`.
const NUMBER: &str = "number";

impl Serialize for Fill {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Fill::Number(number) if number.is_finite() => serializer.serialize_f64(*number),
            Fill::Integer(number) => match u64::try_from(*number) {
                Ok(number) => serializer.serialize_u64(number),
                Err(_) => serializer.serialize_i64(i64::try_from(*number).map_err(ser::Error::custom)?),
            },
            Fill::Text(text) => serializer.serialize_str(text),
            Fill::Number(number) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry(NUMBER, &number.to_string())?;
                map.end()
            }
            Fill::Bytes(bytes) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry(BYTES, bytes.as_ref())?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Fill {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FillVisitor)
    }
}

struct FillVisitor;

impl<'de> Visitor<'de> for FillVisitor {
    type Value = Fill;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number, a text, {{\"{BYTES}\": [...]}} or {{\"{NUMBER}\": \"NaN\"}}")
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Fill, E> {
        Ok(number.into())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Fill, E> {
        Ok(number.into())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Fill, E> {
        Ok(number.into())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Fill, E> {
        Ok(text.into())
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Fill, E> {
        Ok(bytes.to_vec().into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fill, A::Error> {
        let fill = match map.next_key::<String>()?.as_deref() {
            Some(BYTES) => map.next_value::<Vec<u8>>()?.into(),
            Some(NUMBER) => {
                let text = map.next_value::<String>()?;
                text.parse::<f64>()
                    .map_err(|_| de::Error::custom(format!("{text:?} is not a number")))?
                    .into()
            }
            Some(other) => return Err(de::Error::unknown_field(other, &[BYTES, NUMBER])),
            None => return Err(de::Error::missing_field(BYTES)),
        };
        match map.next_key::<String>()? {
            Some(other) => Err(de::Error::unknown_field(&other, &[])),
            None => Ok(fill),
        }
    }
}
