//! [`AsStored`]: the option that delivers a column as it is stored, although a schema beside the files (such
//! as that of Petastorm) says how its cells are decoded.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ColumnOption;

/// Delivers a column as it is stored. In a serialized spec the value is `true`.
///
/// ```
/// use forebay::LoaderSpec;
/// use forebay::column::AsStored;
///
/// let mut spec = LoaderSpec::default();
/// spec.column("*").as_stored = Some(AsStored);
/// assert!(serde_json::to_string(&spec)?.contains(r#""as_stored":{"*":true}"#));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsStored;

/// Another option may still say how the column is delivered: this option only keeps a schema from decoding
/// it.
impl ColumnOption for AsStored {
    fn keyword(_: &'static str) -> &'static str {
        "decode"
    }

    fn delivers() -> bool {
        false
    }
}

impl Serialize for AsStored {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

impl<'de> Deserialize<'de> for AsStored {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match bool::deserialize(deserializer)? {
            true => Ok(AsStored),
            false => Err(D::Error::custom("it is true, or the column is left out")),
        }
    }
}
