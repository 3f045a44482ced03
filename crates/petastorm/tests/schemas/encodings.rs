//! Tests that schemas are read as each version of Petastorm, Python, numpy and Spark pickles them.

#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use base64::prelude::{BASE64_STANDARD, Engine as _};
use forebay_petastorm::{Codec, Dtype, Field, SparkType, Unischema};

use super::written::{PLAIN, Parts, codec, read, schema, spark};

/// The same schema, pickled by `pickles/write.py` with several versions of numpy and of the pickle protocol.
const WRITTEN: [(&str, &str); 4] = [
    ("numpy 1, protocol 0", include_str!("pickles/numpy1-protocol0.txt")),
    ("numpy 1, protocol 2", include_str!("pickles/numpy1-protocol2.txt")),
    ("numpy 1, protocol 4", include_str!("pickles/numpy1-protocol4.txt")),
    ("numpy 2, protocol 4", include_str!("pickles/numpy2-protocol4.txt")),
];

/// The pickles of [`WRITTEN`], decoded from Base64, each with the names of the versions that wrote it.
pub(crate) fn written() -> Vec<(&'static str, Vec<u8>)> {
    let decoded = |text: &str| BASE64_STANDARD.decode(text.replace('\n', "")).unwrap();
    WRITTEN.iter().map(|(what, text)| (*what, decoded(text))).collect()
}

fn field(name: &str, dtype: Dtype, shape: &[Option<u64>], codec: Option<Codec>, nullable: bool) -> Field {
    Field { name: name.to_owned(), dtype, shape: shape.to_vec(), codec, nullable }
}

/// The fields that every pickle in [`WRITTEN`] must give.
fn expected() -> Vec<Field> {
    let scalar = |spark_type| Some(Codec::Scalar(spark_type));
    let jpeg = Some(Codec::CompressedImage { format: "jpeg".to_owned(), quality: Some(90) });
    let array = || Some(Codec::Ndarray);
    let list = SparkType::Array(Box::new(SparkType::Integer));
    let large = [None, Some(300), Some(70_000), Some(1 << 40)];
    vec![
        field("id", Dtype::Int64, &[], scalar(SparkType::Long), false),
        field("image", Dtype::UInt8, &[None, None, Some(3)], jpeg, true),
        field("price", Dtype::Decimal, &[], scalar(SparkType::Decimal { precision: 12, scale: 3 }), false),
        field("array", Dtype::Float32, &large, array(), false),
        field("packed", Dtype::Str, &[Some(2)], Some(Codec::CompressedNdarray), false),
        field("plain", Dtype::Bool, &[], None, true),
        field("python", Dtype::Int64, &[], None, false),
        field("swapped", Dtype::Int64, &[Some(3)], array(), false),
        field("text", Dtype::Str, &[Some(3)], array(), false),
        field("time", Dtype::Datetime64, &[Some(3)], array(), false),
        field("bytes", Dtype::Bytes, &[None], array(), false),
        field("when", Dtype::Datetime64, &[], scalar(SparkType::Timestamp), false),
        field("numbers", Dtype::Int32, &[Some(5), Some(700)], array(), true),
        field("list", Dtype::Int32, &[None], scalar(list), false),
        field("short", Dtype::Str, &[], scalar(SparkType::Varchar(10)), false),
    ]
}

#[test]
fn a_schema_is_the_same_in_every_protocol_and_with_every_numpy() {
    for (what, pickle) in written() {
        let schema = Unischema::read(&pickle).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((schema.name.as_str(), schema.fields), ("All", expected()), "{what}");
    }
}

#[test]
fn a_field_is_the_same_in_its_three_encodings() {
    let spark_type = spark("ShortType", &[]);
    let short = codec("ScalarCodec", &[("_spark_type", &spark_type)]);
    let parts = Parts { dtype: "cnumpy\nuint8\n", codec: &short, nullable: "I01\n", ..PLAIN };
    let expected = field("x", Dtype::UInt8, &[], Some(Codec::Scalar(SparkType::Short)), true);
    for encoded in [parts.as_new(), parts.as_reconstructed(), parts.as_restored()] {
        let schema = read(&schema(&[("x", encoded)])).unwrap();
        assert_eq!(schema.field("x"), Some(&expected));
        assert_eq!(schema.field("y"), None);
    }
}

#[test]
fn a_restored_field_goes_by_its_names() {
    let parts = PLAIN.as_restored().replace("S'name'\nS'numpy_dtype'", "S'numpy_dtype'\nS'name'");
    let swapped = parts.replace("S'x'\ncnumpy\nint64\n", "cnumpy\nint64\nS'x'\n");
    assert_eq!(read(&schema(&[("x", swapped)])).unwrap().fields[0].dtype, Dtype::Int64);
    let missing = PLAIN.as_restored().replace("S'nullable'", "S'other'");
    assert!(read(&schema(&[("x", missing)])).is_err());
}

#[test]
fn the_packages_of_earlier_names_are_petastorm() {
    let array = codec("NdarrayCodec", &[]);
    let pickle = schema(&[("x", Parts { codec: &array, shape: "(NI3\nt", ..PLAIN }.as_restored())]);
    let expected = read(&pickle).unwrap();
    assert_eq!(expected.fields[0].shape, [None, Some(3)]);
    for package in ["av.experimental.deepdrive.dataset_toolkit", "av.ml.dataset_toolkit", "dataset_toolkit"] {
        assert_eq!(read(&pickle.replace("petastorm.", &format!("{package}."))).unwrap(), expected);
    }
    assert!(read(&pickle.replace("petastorm.", "ml.dataset_toolkit.")).is_err());
}

#[test]
fn the_order_of_fields_is_kept_and_a_name_may_be_any_text() {
    let named = |name| Parts { name, ..PLAIN }.as_reconstructed();
    let names = ["z", "a", "_name", "caf\\xc3\\xa9", "it\\'s"];
    let schema = read(&schema(&names.map(|name| (name, named(name))))).unwrap();
    let read: Vec<&str> = schema.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(read, ["z", "a", "_name", "café", "it's"]);
    assert_eq!(schema.name, "Written");
}

#[test]
fn two_fields_of_one_name_or_a_field_under_another_are_refused() {
    let twice = schema(&[("x", PLAIN.as_new()), ("x", PLAIN.as_new())]);
    let cause = read(&twice).unwrap_err();
    assert!(cause.to_string().contains("two fields are named `x`"), "{cause}");
    let other = read(&schema(&[("y", PLAIN.as_new())])).unwrap_err();
    assert!(other.to_string().contains("the field `x` has another name as key"), "{other}");
}
