//! Tests with the schemas of data sets that early versions of Petastorm wrote.
//!
//! The data sets are in the folder that the environment variable `FOREBAY_TEST_DATA` names, or beside the
//! repository. If they are missing, the tests say so and pass.

#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::path::{Path, PathBuf};

use forebay_petastorm::{
    Codec, Dtype, ROW_GROUPS_KEY, SparkType, UNISCHEMA_KEY, Unischema, row_groups_per_file,
};

use crate::skipped::skipped;

const ABSENT: &str = "FOREBAY_TEST_DATA has no petastorm-legacy";

/// The value under `key` in the metadata of each data set, with the name of the data set's folder.
fn values(key: &str) -> Vec<(String, Vec<u8>)> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data = std::env::var_os("FOREBAY_TEST_DATA").map_or_else(beside, PathBuf::from);
    let Ok(folders) = std::fs::read_dir(data.join("petastorm-legacy")) else { return Vec::new() };
    let mut values: Vec<(String, Vec<u8>)> = folders
        .map(|folder| folder.unwrap())
        .map(|folder| {
            let file = std::fs::read(folder.path().join("_common_metadata")).unwrap();
            (folder.file_name().to_string_lossy().into_owned(), value(&file, key).unwrap())
        })
        .collect();
    values.sort();
    values
}

/// Finds the metadata value of `key` in the bytes of a Parquet file, where Thrift's compact protocol writes
/// the value after its key, as a field header, a length and the bytes.
fn value(file: &[u8], key: &str) -> Option<Vec<u8>> {
    /// The Thrift header of a binary field whose id is one more than the id of the field before it.
    const NEXT_BYTES: u8 = 0x18;
    let end = file.windows(key.len()).position(|window| window == key.as_bytes())? + key.len();
    let (field, mut rest) = file[end..].split_first()?;
    assert_eq!(*field, NEXT_BYTES);
    let (mut length, mut shift) = (0, 0);
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        length |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some(rest.get(..length)?.to_vec());
        }
    }
}

/// The pickled schema of each data set, with the name of the data set's folder.
pub(crate) fn recorded() -> Vec<(String, Vec<u8>)> {
    values(UNISCHEMA_KEY)
}

#[test]
fn the_schemas_of_early_versions_are_read() {
    let recorded = recorded();
    if recorded.is_empty() {
        skipped(ABSENT);
    }
    for (version, pickle) in recorded {
        let schema = Unischema::read(&pickle).unwrap_or_else(|error| panic!("{version}: {error}"));
        assert_eq!(schema.name, "TestSchema", "{version}");
        assert!(schema.fields.is_sorted_by(|one, next| one.name < next.name), "{version}");
        let parts = |name: &str| {
            let field = schema.field(name).unwrap_or_else(|| panic!("{version} has no {name}"));
            (field.dtype, field.shape.as_slice(), field.codec.clone(), field.nullable)
        };
        let whole = [Some(32), Some(16), Some(3)];
        let scalar = |spark_type| Some(Codec::Scalar(spark_type));
        let png = Codec::CompressedImage { format: "png".to_owned(), quality: Some(80) };
        assert_eq!(parts("id"), (Dtype::Int64, &[][..], scalar(SparkType::Long), false));
        assert_eq!(parts("image_png"), (Dtype::UInt8, &whole[..], Some(png), false));
        assert_eq!(parts("matrix_nullable"), (Dtype::UInt16, &whole[..], Some(Codec::Ndarray), true));
        let decimal = SparkType::Decimal { precision: 10, scale: 9 };
        assert_eq!(parts("decimal"), (Dtype::Decimal, &[][..], scalar(decimal), false));
        assert_eq!(parts("partition_key"), (Dtype::Str, &[][..], scalar(SparkType::String), false));
        assert_eq!(parts("python_primitive_uint8"), (Dtype::UInt8, &[][..], scalar(SparkType::Short), false));
        assert_eq!(parts("empty_matrix_string"), (Dtype::Bytes, &[None][..], Some(Codec::Ndarray), false));
    }
}

#[test]
fn the_row_groups_of_early_versions_are_read() {
    let recorded = values(ROW_GROUPS_KEY);
    if recorded.is_empty() {
        skipped(ABSENT);
    }
    for (version, json) in recorded {
        let files = row_groups_per_file(&json).unwrap_or_else(|error| panic!("{version}: {error}"));
        assert!(files.len() == 10 && files.values().all(|count| *count == 1), "{version}: {files:?}");
    }
}
