//! How columns are laid out in Parquet, and the notes on them that other programs read.

use std::collections::HashMap;

use forebay_arrow::datatypes::{DataType, Schema};
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use serde_json::{Map, Value, json};

/// The writer looks at the size of a page after this many values: with its usual 1,024, images make pages of
/// 100 MB.
const IMAGES_BETWEEN_CHECKS: usize = 8;
/// The size of a page of images, so that a reader can take a few rows without fetching the others.
const IMAGE_PAGE_BYTES: usize = 256 << 10;
/// The key of the notes that Hugging Face's `datasets` writes and reads.
const FEATURES_KEY: &str = "huggingface";

/// The meaning of a column for Hugging Face's `datasets`.
pub(super) enum Feature<'a> {
    Image,
    /// A class, with the names of all of them.
    Class(&'a [String]),
    /// Lists of classes.
    Classes(&'a [String]),
    /// A plain value, by the name of its type.
    Value(&'static str),
    /// Lists of boxes, each of four numbers.
    Boxes,
}

/// The notes on columns in the form of Hugging Face's `datasets`, which keep the names of classes.
pub(super) fn features(columns: &[(&str, Feature<'_>)]) -> HashMap<String, String> {
    let class = |names: &[String]| json!({"names": names, "_type": "ClassLabel"});
    let value = |dtype: &str| json!({"dtype": dtype, "_type": "Value"});
    let list = |feature: Value, length: i64| json!({"feature": feature, "length": length, "_type": "List"});
    let mut features = Map::new();
    for (name, feature) in columns {
        let note = match feature {
            Feature::Image => json!({"_type": "Image"}),
            Feature::Class(names) => class(names),
            Feature::Classes(names) => list(class(names), -1),
            Feature::Value(dtype) => value(dtype),
            Feature::Boxes => list(list(value("float32"), 4), -1),
        };
        features.insert((*name).to_owned(), note);
    }
    let notes = json!({"info": {"features": features}});
    HashMap::from([(FEATURES_KEY.to_owned(), notes.to_string())])
}

/// The properties of the files: bytes are stored as they are and in small pages, since images are compressed
/// already and no two are the same; everything else is compressed where rows have no bytes.
pub(super) fn properties(schema: &Schema) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("forebay ", env!("CARGO_PKG_VERSION")).to_owned())
        // Row groups end at each `flush`.
        .set_max_row_group_row_count(None);
    let bytes: Vec<&String> = schema
        .fields()
        .iter()
        .filter(|field| matches!(field.data_type(), DataType::Binary | DataType::LargeBinary))
        .map(|field| field.name())
        .collect();
    if bytes.is_empty() {
        return properties.set_compression(Compression::SNAPPY).build();
    }
    properties = properties.set_write_batch_size(IMAGES_BETWEEN_CHECKS);
    for name in bytes {
        let column = ColumnPath::new(vec![name.clone()]);
        properties = properties
            .set_column_data_page_size_limit(column.clone(), IMAGE_PAGE_BYTES)
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_statistics_enabled(column, EnabledStatistics::None);
    }
    properties.build()
}
