//! Describes the columns in the metadata of the files, in the form that Hugging Face's `datasets` reads.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::masks::MaskForm;

/// The key of the notes that Hugging Face's `datasets` writes and reads.
const FEATURES_KEY: &str = "huggingface";

/// The meaning of a column for Hugging Face's `datasets`.
pub(super) enum Feature<'a> {
    Image,
    /// The number of a class, with the names of all classes.
    Class(&'a [String]),
    /// Lists of class numbers, with the names of all classes.
    Classes(&'a [String]),
    /// A plain value of the type with this name.
    Value(&'static str),
    /// Lists of boxes, each of four numbers.
    Boxes,
    /// Lists of masks of objects.
    Masks(MaskForm),
    /// Lists of the key points of each object. A key point has this many numbers.
    Points(usize),
}

/// The metadata that describes all columns, including the names of classes.
pub(super) fn notes(columns: &[(&str, Feature<'_>)]) -> HashMap<String, String> {
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
            Feature::Masks(MaskForm::Outlines) => list(list(list(value("float64"), -1), -1), -1),
            Feature::Masks(MaskForm::Runs) => {
                list(json!({"counts": value("string"), "size": list(value("int64"), 2)}), -1)
            }
            Feature::Points(numbers) => list(list(list(value("float32"), *numbers as i64), -1), -1),
        };
        features.insert((*name).to_owned(), note);
    }
    let all = json!({"info": {"features": features}});
    HashMap::from([(FEATURES_KEY.to_owned(), all.to_string())])
}
