//! Writes the Avro files that the tests need, from values as JSON and a schema.

use std::io::Write;

use serde_json::{Value, json};

const MARKER: [u8; 16] = *b"sixteen bytes ok";

/// Returns a file of records with a schema and a codec.
pub(crate) fn file(schema: &Value, codec: &str, records: &[Value]) -> Vec<u8> {
    let mut bytes = b"Obj\x01".to_vec();
    long(2, &mut bytes);
    for (key, value) in [("avro.schema", schema.to_string()), ("avro.codec", codec.to_owned())] {
        text(key, &mut bytes);
        text(&value, &mut bytes);
    }
    long(0, &mut bytes);
    bytes.extend(MARKER);
    let mut block = Vec::new();
    records.iter().for_each(|record| encode(schema, record, &mut block));
    let block = compressed(codec, block);
    long(records.len() as i64, &mut bytes);
    long(block.len() as i64, &mut bytes);
    bytes.extend(block);
    bytes.extend(MARKER);
    bytes
}

fn compressed(codec: &str, plain: Vec<u8>) -> Vec<u8> {
    match codec {
        "deflate" => {
            let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
            deflate.write_all(&plain).unwrap();
            deflate.finish().unwrap()
        }
        "snappy" => {
            let mut packed = snap::raw::Encoder::new().compress_vec(&plain).unwrap();
            packed.extend(crc32fast::hash(&plain).to_be_bytes());
            packed
        }
        "zstandard" => zstd::encode_all(&*plain, 1).unwrap(),
        _ => plain,
    }
}

fn encode(schema: &Value, value: &Value, bytes: &mut Vec<u8>) {
    match schema {
        Value::Array(branches) => match value.is_null() {
            true => long(0, bytes),
            false => {
                long(1, bytes);
                encode(&branches[1], value, bytes);
            }
        },
        Value::String(kind) => primitive(kind, value, bytes),
        _ => match schema["type"].as_str().unwrap() {
            "record" => {
                for field in schema["fields"].as_array().unwrap() {
                    encode(&field["type"], &value[field["name"].as_str().unwrap()], bytes);
                }
            }
            "array" => {
                let items = value.as_array().unwrap();
                if !items.is_empty() {
                    long(items.len() as i64, bytes);
                    items.iter().for_each(|item| encode(&schema["items"], item, bytes));
                }
                long(0, bytes);
            }
            kind => primitive(kind, value, bytes),
        },
    }
}

fn primitive(kind: &str, value: &Value, bytes: &mut Vec<u8>) {
    match kind {
        "int" | "long" => long(value.as_i64().unwrap(), bytes),
        "string" => text(value.as_str().unwrap(), bytes),
        "bytes" => {
            let numbers = value.as_array().unwrap();
            long(numbers.len() as i64, bytes);
            bytes.extend(numbers.iter().map(|number| number.as_u64().unwrap() as u8));
        }
        other => panic!("no values of {other} are written"),
    }
}

fn text(text: &str, bytes: &mut Vec<u8>) {
    long(text.len() as i64, bytes);
    bytes.extend(text.as_bytes());
}

fn long(number: i64, bytes: &mut Vec<u8>) {
    let mut left = (number << 1 ^ number >> 63) as u64;
    while left >= 0x80 {
        bytes.push(left as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
}

fn field(name: &str, id: i32, of: &Value) -> Value {
    json!({"name": name, "type": of, "field-id": id})
}

fn optional(name: &str, id: i32, of: &Value) -> Value {
    field(name, id, &json!(["null", of]))
}

/// Returns the schema of a map with numbers as keys: an array of records.
fn numbered(name: &str, [key, value]: [i32; 2], of: &str) -> Value {
    let fields = [field("key", key, &json!("int")), field("value", value, &json!(of))];
    json!({"type": "array", "logicalType": "map", "items": {"type": "record", "name": name, "fields": fields}})
}

/// Returns the schema of a list of manifests.
pub(crate) fn of_list() -> Value {
    json!({"type": "record", "name": "manifest_file", "fields": [
        field("manifest_path", 500, &json!("string")), field("manifest_length", 501, &json!("long")),
        field("partition_spec_id", 502, &json!("int")), field("content", 517, &json!("int")),
        field("sequence_number", 515, &json!("long")), optional("first_row_id", 520, &json!("long"))]})
}

/// Returns the schema of a manifest whose partitions have these fields.
pub(crate) fn of_manifest(partition: &Value) -> Value {
    let partition = json!({"type": "record", "name": "r102", "fields": partition});
    let numbers = json!({"type": "array", "items": "long"});
    let file = json!({"type": "record", "name": "r2", "fields": [
        field("content", 134, &json!("int")), field("file_path", 100, &json!("string")),
        field("file_format", 101, &json!("string")), field("partition", 102, &partition),
        field("record_count", 103, &json!("long")), field("file_size_in_bytes", 104, &json!("long")),
        optional("null_value_counts", 110, &numbered("k121_v122", [121, 122], "long")),
        optional("lower_bounds", 125, &numbered("k126_v127", [126, 127], "bytes")),
        optional("upper_bounds", 128, &numbered("k129_v130", [129, 130], "bytes")),
        optional("split_offsets", 132, &numbers), optional("equality_ids", 135, &numbers),
        optional("first_row_id", 142, &json!("long")),
        optional("referenced_data_file", 143, &json!("string")), optional("content_offset", 144, &json!("long")),
        optional("content_size_in_bytes", 145, &json!("long"))]});
    json!({"type": "record", "name": "manifest_entry", "fields": [
        field("status", 0, &json!("int")), optional("sequence_number", 3, &json!("long")),
        field("data_file", 2, &file)]})
}
