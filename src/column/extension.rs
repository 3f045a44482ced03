//! Reads and writes the Arrow extension types that columns declare in the metadata of their fields.

use forebay_arrow::datatypes::{DataType, Field};
use forebay_base::Result;
use forebay_image::{PACKED_EXTENSION, PACKED_VERSION, newer_packed};
use serde_json::{Value, json};

/// The metadata key under which a field names its Arrow extension type.
pub(crate) const EXTENSION_NAME: &str = "ARROW:extension:name";
/// The metadata key under which a field has the parameters of its extension type.
pub(crate) const EXTENSION_METADATA: &str = "ARROW:extension:metadata";

/// The name of a structure's child that holds the bytes of an image.
const BYTES: &str = "bytes";

/// The metadata that marks a column of packed JPEGs, which are stored as DCT coefficients.
pub(crate) fn packed_metadata() -> [(String, String); 2] {
    [
        (EXTENSION_NAME.to_owned(), PACKED_EXTENSION.to_owned()),
        (EXTENSION_METADATA.to_owned(), json!({ "version": PACKED_VERSION }).to_string()),
    ]
}

/// Whether a column or its child `bytes` declares that it contains packed JPEGs (DCT coefficients).
///
/// # Errors
/// `Unsupported` if the coefficients are in a later version of the format.
pub fn is_packed(field: &Field) -> Result<bool> {
    if let DataType::Struct(children) = field.data_type()
        && let Some((_, child)) = children.find(BYTES)
    {
        return is_packed(child);
    }
    if field.metadata().get(EXTENSION_NAME).is_none_or(|name| name != PACKED_EXTENSION) {
        return Ok(false);
    }
    let parameters = field.metadata().get(EXTENSION_METADATA).map(String::as_str).unwrap_or_default();
    let version = serde_json::from_str::<Value>(parameters).ok().and_then(|all| all.get("version")?.as_u64());
    match version {
        Some(version) if version > u64::from(PACKED_VERSION) => Err(newer_packed(version)),
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use forebay_base::ErrorKind;

    use super::*;

    fn field(version: u8) -> Field {
        let metadata = packed_metadata().map(|(key, value)| (key, value.replace('1', &version.to_string())));
        Field::new("image", DataType::BinaryView, true).with_metadata(HashMap::from(metadata))
    }

    #[test]
    fn coefficients_are_known_by_their_field_and_a_later_version_is_refused() {
        let within = |field: Field| {
            let bytes = Arc::new(field.with_name("bytes"));
            Field::new("image", DataType::Struct(vec![bytes].into()), true)
        };
        assert!(!is_packed(&Field::new("image", DataType::BinaryView, true)).unwrap());
        assert!(is_packed(&field(1)).unwrap() && is_packed(&within(field(1))).unwrap());
        for later in [field(2), within(field(2))] {
            let error = is_packed(&later).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("version 2"), "{error}");
        }
    }
}
