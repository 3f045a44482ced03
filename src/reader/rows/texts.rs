//! Checks texts in encodings that store the lengths of all texts first (`DELTA_LENGTH_BYTE_ARRAY`,
//! `DELTA_BYTE_ARRAY`). The Parquet crate checks that texts are UTF-8 in all other encodings, but not in
//! these.

use forebay_arrow::array::{Array, AsArray, make_array};
use forebay_arrow::datatypes::DataType;
use forebay_base::{Error, ErrorKind, Result};

/// Fails with `Corrupt` if a text of the array, or of an array nested in it, is not UTF-8.
pub(super) fn check(array: &dyn Array) -> Result<()> {
    if *array.data_type() == DataType::Utf8View {
        let texts = array.as_string_view().clone().to_binary_view();
        let wrong = texts.iter().flatten().find_map(|text| std::str::from_utf8(text).err());
        return match wrong {
            None => Ok(()),
            Some(error) => {
                let cause =
                    format!("a text is not UTF-8: the first wrong byte is number {}", error.valid_up_to());
                Err(Error::new(ErrorKind::Corrupt, cause))
            }
        };
    }
    array.to_data().child_data().iter().try_for_each(|child| check(&make_array(child.clone())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_arrow::array::{BinaryViewArray, StructArray};
    use forebay_arrow::datatypes::Field;

    use super::*;

    #[test]
    #[allow(unsafe_code)]
    fn texts_that_are_not_utf_8_are_found_where_they_are() {
        let texts = |last: &'static [u8]| -> Arc<dyn Array> {
            let cells = [Some(&b"long enough for a buffer of its own"[..]), None, Some(last)];
            // SAFETY: only `check` reads the array, and it treats the cells as bytes.
            Arc::new(unsafe { BinaryViewArray::from_iter(cells).to_string_view_unchecked() })
        };
        let field = Arc::new(Field::new("x", DataType::Utf8View, true));
        let within = |texts| StructArray::from(vec![(field.clone(), texts)]);
        assert!(check(&texts("é".as_bytes())).is_ok() && check(&within(texts(b""))).is_ok());
        for error in [check(&texts(b"a\xc3")), check(&within(texts(b"a\xc3")))] {
            assert_eq!(error.unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
}
