//! Tests the codec, type and shape that are read for a field, in each form that a pickle can give them.

#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use forebay_petastorm::{Codec, Dtype, ErrorKind, Field, SparkType, row_groups_per_file};

use super::written::{PLAIN, Parts, codec, read, schema, spark};

/// Reads a schema with one field made of `parts`, and returns the field, or the text of the error.
fn one(parts: &Parts<'_>) -> Result<Field, String> {
    let schema = read(&schema(&[("x", parts.as_reconstructed())])).map_err(|error| error.to_string())?;
    Ok(schema.fields.into_iter().next().unwrap())
}

fn codec_of(codec: &str) -> Result<Option<Codec>, String> {
    one(&Parts { codec, ..PLAIN }).map(|field| field.codec)
}

fn spark_type_of(spark_type: &str) -> Result<SparkType, String> {
    match codec_of(&codec("ScalarCodec", &[("_spark_type", spark_type)]))? {
        Some(Codec::Scalar(spark_type)) => Ok(spark_type),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_codec_is_read_and_says_how_it_was_made() {
    let image = |attributes: &[(&str, &str)]| codec("CompressedImageCodec", attributes);
    let today = image(&[("_image_codec", "S'.png'\n"), ("_quality", "I80\n")]);
    let first = image(&[("_format", "S'jpeg'\n")]);
    let more = image(&[("_image_codec", "V.jpg\n"), ("_quality", "K\u{5a}"), ("_added_later", "(lN")]);
    let more = more.replace("(lN", "(l");
    for (written, said) in [
        (codec("NdarrayCodec", &[]), "NdarrayCodec()"),
        (codec("CompressedNdarrayCodec", &[]), "CompressedNdarrayCodec()"),
        (today, "CompressedImageCodec('png', 80)"),
        (first, "CompressedImageCodec('jpeg')"),
        (more, "CompressedImageCodec('jpg', 90)"),
    ] {
        assert_eq!(codec_of(&written).unwrap().unwrap().to_string(), said);
    }
    assert_eq!(codec_of("N"), Ok(None));
}

#[test]
fn a_codec_that_lacks_its_parts_is_refused_with_its_column() {
    let image = |attributes: &[(&str, &str)]| codec("CompressedImageCodec", attributes);
    for (written, cause) in [
        (codec("ScalarCodec", &[]), "its codec has no `_spark_type`"),
        (codec("ScalarCodec", &[("_spark_type", "I1\n")]), "the type of its codec is not one of Spark"),
        (image(&[]), "its codec has no `_image_codec`"),
        (image(&[("_image_codec", "I1\n")]), "the format of its codec is not text"),
        (
            image(&[("_image_codec", "S'.png'\n"), ("_quality", "I-1\n")]),
            "the quality of its codec is not a number",
        ),
        (spark("ShortType", &[]), "its codec is an object of another class"),
        ("I1\n".to_owned(), "its codec is not an object"),
    ] {
        let said = codec_of(&written).unwrap_err();
        assert!(said.starts_with("column \"x\": ") && said.contains(cause), "{said}");
    }
}

#[test]
fn every_type_of_spark_that_a_scalar_can_have_is_read() {
    for name in [
        "BinaryType",
        "BooleanType",
        "ByteType",
        "ShortType",
        "IntegerType",
        "LongType",
        "FloatType",
        "DoubleType",
        "StringType",
        "DateType",
        "TimestampType",
        "TimestampNTZType",
    ] {
        assert_eq!(spark_type_of(&spark(name, &[])).unwrap().to_string(), format!("{name}()"));
    }
    // The attribute `collation`, which Spark 4 adds to `StringType`, is ignored.
    assert_eq!(
        spark_type_of(&spark("StringType", &[("collation", "S'UTF8_BINARY'\n")])),
        Ok(SparkType::String)
    );
    let decimal =
        spark("DecimalType", &[("hasPrecisionInfo", "I01\n"), ("scale", "I9\n"), ("precision", "I10\n")]);
    assert_eq!(spark_type_of(&decimal), Ok(SparkType::Decimal { precision: 10, scale: 9 }));
    let unsaid = spark("DecimalType", &[("precision", "N")]);
    assert_eq!(spark_type_of(&unsaid), Ok(SparkType::Decimal { precision: 10, scale: 0 }));
    assert_eq!(spark_type_of(&spark("CharType", &[("length", "I4\n")])), Ok(SparkType::Char(4)));
    assert!(spark_type_of(&spark("VarcharType", &[])).unwrap_err().contains("has no `length`"));
}

#[test]
fn arrays_of_arrays_end_at_a_depth() {
    let nested = |depth: usize| {
        (0..depth).fold(spark("LongType", &[]), |element, _| spark("ArrayType", &[("elementType", &element)]))
    };
    assert!(spark_type_of(&nested(8)).is_ok());
    assert!(spark_type_of(&nested(9)).unwrap_err().contains("arrays more than 8 deep"));
}

#[test]
fn types_that_are_not_read_are_refused_by_name_and_place() {
    for (module, name) in
        [("pyspark.sql.types", "MapType"), ("pyspark.sql.types", "StructType"), ("numpy", "void")]
    {
        let dtype = format!("c{module}\n{name}\n");
        let error = read(&schema(&[("x", Parts { dtype: &dtype, ..PLAIN }.as_new())])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let said = format!("the schema has the type `{module}.{name}` at byte ");
        assert!(error.to_string().starts_with(&said), "{error}");
    }
}

#[test]
fn every_type_of_numpy_is_read_as_a_class_and_as_a_dtype() {
    let dtype_of = |dtype: &str| one(&Parts { dtype, ..PLAIN }).map(|field| field.dtype);
    for (name, code, dtype) in [
        ("bool_", "b1", Dtype::Bool),
        ("int8", "i1", Dtype::Int8),
        ("int16", "i2", Dtype::Int16),
        ("int32", "i4", Dtype::Int32),
        ("int64", "i8", Dtype::Int64),
        ("uint8", "u1", Dtype::UInt8),
        ("uint16", "u2", Dtype::UInt16),
        ("uint32", "u4", Dtype::UInt32),
        ("uint64", "u8", Dtype::UInt64),
        ("float16", "f2", Dtype::Float16),
        ("float32", "f4", Dtype::Float32),
        ("float64", "f8", Dtype::Float64),
        ("complex64", "c8", Dtype::Complex64),
        ("complex128", "c16", Dtype::Complex128),
        ("str_", "U12", Dtype::Str),
        ("bytes_", "S", Dtype::Bytes),
        ("datetime64", "M8", Dtype::Datetime64),
        ("timedelta64", "m8", Dtype::Timedelta64),
        ("object_", "O8", Dtype::Object),
    ] {
        let class = format!("cnumpy\n{name}\n");
        let object = format!("cnumpy\ndtype\n(S'{code}'\nI0\nI1\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntb");
        assert_eq!([dtype_of(&class), dtype_of(&object)], [Ok(dtype), Ok(dtype)], "{name}");
        assert_eq!(dtype.to_string(), name);
    }
    for (class, dtype) in [
        ("cnumpy\nunicode_\n", Dtype::Str),
        ("cnumpy\nstring_\n", Dtype::Bytes),
        ("cnumpy\nbool\n", Dtype::Bool),
        ("c__builtin__\nfloat\n", Dtype::Float64),
        ("cdecimal\nDecimal\n", Dtype::Decimal),
    ] {
        assert_eq!(dtype_of(class), Ok(dtype));
    }
    for code in ["V8", "f16", "Ux", ""] {
        let said = dtype_of(&format!("cnumpy\ndtype\n(S'{code}'\nI0\nI1\ntR")).unwrap_err();
        assert!(said.contains(&format!("its type is the numpy.dtype `{code}`, which is not read")), "{said}");
    }
    for wrong in ["N", "I1\n", "S'int64'\n", "ccollections\nOrderedDict\n", "cnumpy\ndtype\n(tR"] {
        assert!(dtype_of(wrong).unwrap_err().contains("its type is not one of numpy"));
    }
}

#[test]
fn a_shape_has_lengths_and_open_dimensions() {
    let shape_of = |shape: &str| one(&Parts { shape, ..PLAIN }).map(|field| field.shape);
    // Pickles a 16-bit numpy integer with the given byte order.
    let number = |order: &str, bytes: &str| {
        let dtype = format!("cnumpy\ndtype\n(S'i2'\nI0\nI1\ntR(I3\nS'{order}'\nNNNI-1\nI-1\nI0\ntb");
        format!("(cnumpy.core.multiarray\nscalar\n({dtype}S'{bytes}'\ntRt")
    };
    for (written, shape) in [
        ("(t".to_owned(), vec![]),
        ("(NNI3\nt".to_owned(), vec![None, None, Some(3)]),
        ("(lL7L\naNa".to_owned(), vec![Some(7), None]),
        ("(I0\nt".to_owned(), vec![Some(0)]),
        (number("<", "\\x02\\x01"), vec![Some(258)]),
        (number(">", "\\x02\\x01"), vec![Some(513)]),
    ] {
        assert_eq!(shape_of(&written).as_ref(), Ok(&shape), "{written}");
    }
    for wrong in ["N", "I3\n", "(I-1\nt", "(S'a'\nt", &number("<", "\\xff\\xff"), &number("<", "")] {
        let said = shape_of(wrong).unwrap_err();
        assert!(said.contains("its shape"), "{said}");
    }
}

#[test]
fn whether_it_is_nullable_is_a_boolean_or_none() {
    let nullable_of = |nullable: &str| one(&Parts { nullable, ..PLAIN }).map(|field| field.nullable);
    for (written, nullable) in
        [("I01\n", true), ("I00\n", false), ("\u{88}", true), ("N", false), ("I1\n", true)]
    {
        assert_eq!(nullable_of(written), Ok(nullable));
    }
    assert!(nullable_of("I2\n").is_err() && nullable_of("S'yes'\n").is_err());
}

#[test]
fn the_row_groups_of_files_are_counts_by_path() {
    let files = row_groups_per_file(br#"{"p=1/\u00e9.parquet": 3, "b.parquet": 0}"#).unwrap();
    assert_eq!((files["p=1/é.parquet"], files["b.parquet"], files.len()), (3, 0, 2));
    for wrong in
        [&b"{\"a\": -1}"[..], b"{\"a\": 1.5}", b"[]", b"{\"a\"", b"", b"\xff", "[".repeat(9999).as_bytes()]
    {
        let error = row_groups_per_file(wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().starts_with("Petastorm's count of row groups in each file is damaged: "));
    }
}
