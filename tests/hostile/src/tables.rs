//! Logs and metadata of tables.

use bytes::Bytes;
use forebay_delta::{Replay, VectorPlace};
use forebay_iceberg::{Manifest, Metadata, Scan, Wanted, manifests};
use serde_json::{Value, json};

#[path = "../../files/iceberg/avro.rs"]
mod avro;

/// The folder of the table that the logs describe.
const ROOT: &str = "file:///t";

/// The separator between the files of a log, which are listed from the newest to the oldest.
const NEXT: &[u8] = b"\n---\n";

/// A log is refused, or gives a version whose files are in the table.
pub(crate) fn delta_log(data: &[u8]) -> bool {
    let mut replay = Replay::new(ROOT);
    for file in split(data) {
        let taken = match file.starts_with(b"PAR1") {
            true => replay.checkpoint("00.checkpoint.parquet", Bytes::copy_from_slice(file)).map(drop),
            false => replay.commit(file),
        };
        if taken.is_err() || replay.check().is_err() {
            return false;
        }
    }
    let Ok(table) = replay.finish(1) else { return false };
    let _ = table.rows();
    for file in &table.files {
        assert!(!file.path.split('/').any(|part| part == ".."), "{:?} leads out of the table", file.path);
        if let Some(deletion) = &file.deletion
            && let Ok(VectorPlace::Inline(bytes)) = deletion.place(ROOT)
        {
            let _ = deletion.rows(&bytes);
        }
    }
    true
}

fn split(mut data: &[u8]) -> Vec<&[u8]> {
    let mut files = Vec::new();
    while let Some(at) = data.windows(NEXT.len()).position(|bytes| bytes == NEXT) {
        files.push(&data[..at]);
        data = &data[at + NEXT.len()..];
    }
    files.push(data);
    files
}

/// A deletion vector is refused, or its rows ascend and have the number that the log states. The first byte
/// is that number.
pub(crate) fn deletion_vector(data: &[u8]) -> bool {
    let Some((&count, bytes)) = data.split_first() else { return false };
    let size = bytes.len().saturating_sub(8);
    let add = json!({"add": {"path": "a.parquet", "partitionValues": {}, "size": 1, "deletionVector":
        {"storageType": "p", "pathOrInlineDv": format!("{ROOT}/v.bin"), "offset": 0, "sizeInBytes": size,
            "cardinality": count}}});
    let mut replay = Replay::new(ROOT);
    replay.commit([head(), add.to_string()].join("\n").as_bytes()).expect("the commit is sound");
    let table = replay.finish(0).expect("the commit is sound");
    let deletion = table.files[0].deletion.as_ref().expect("the file has a vector");
    let Ok(rows) = deletion.rows(bytes) else { return false };
    assert!(rows.iter().all(|range| range.start < range.end));
    assert!(rows.windows(2).all(|pair| pair[0].end <= pair[1].start), "{rows:?} does not ascend");
    assert_eq!(rows.iter().map(|range| range.end - range.start).sum::<u64>(), u64::from(count));
    true
}

/// Returns the actions at the beginning of a commit.
fn head() -> String {
    let field = json!({"name": "a", "type": "long", "nullable": true, "metadata": {}});
    let schema = json!({"type": "struct", "fields": [field]}).to_string();
    let features = json!(["deletionVectors"]);
    [
        json!({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features,
            "writerFeatures": features}}),
        json!({"metaData": {"id": "t", "format": {"provider": "parquet", "options": {}}, "schemaString": schema,
            "partitionColumns": [], "configuration": {}, "createdTime": 0}}),
    ]
    .map(|action| action.to_string())
    .join("\n")
}

pub(crate) fn delta_logs() -> Vec<Vec<u8>> {
    let add = |name: &str| {
        json!({"add": {"path": name, "partitionValues": {}, "size": 700, "modificationTime": 1, "dataChange": true,
            "stats": "{\"numRecords\":3,\"minValues\":{\"a\":1},\"maxValues\":{\"a\":9},\"nullCount\":{\"a\":0}}"}})
    };
    let first = [head(), add("part-0.parquet").to_string(), add("b%20c.parquet").to_string()].join("\n");
    let remove = json!({"remove": {"path": "part-0.parquet", "deletionTimestamp": 2, "dataChange": true}});
    let inline = json!({"add": {"path": "d.parquet", "partitionValues": {}, "size": 7, "deletionVector":
        {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
            "sizeInBytes": 40, "cardinality": 6}}});
    let second = format!("{remove}\n{inline}");
    vec![first.clone().into_bytes(), [second.as_bytes(), NEXT, first.as_bytes()].concat()]
}

pub(crate) fn vectors() -> Vec<Vec<u8>> {
    // The bitmap has the rows 3, 4 and 9: magic, number of bitmaps, key, then a bitmap with one array.
    let mut bitmap = 1_681_511_377_u32.to_le_bytes().to_vec();
    bitmap.extend(1_u64.to_le_bytes());
    bitmap.extend(0_u32.to_le_bytes());
    bitmap.extend(12_346_u32.to_le_bytes());
    bitmap.extend(1_u32.to_le_bytes());
    bitmap.extend([0, 0, 2, 0]);
    bitmap.extend(16_u32.to_le_bytes());
    bitmap.extend([3, 0, 4, 0, 9, 0]);
    let mut framed = vec![3];
    framed.extend((bitmap.len() as u32).to_be_bytes());
    framed.extend(&bitmap);
    framed.extend(crc32fast::hash(&bitmap).to_be_bytes());
    vec![framed]
}

fn about_table() -> Value {
    json!({"format-version": 2, "table-uuid": "u", "location": ROOT, "current-schema-id": 0,
        "schemas": [{"schema-id": 0, "type": "struct", "fields": [
            {"id": 1, "name": "id", "required": false, "type": "long"},
            {"id": 2, "name": "day", "required": false, "type": "date"}]}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields":
            [{"source-id": 1, "field-id": 1000, "name": "id", "transform": "bucket[4]"}]}],
        "properties": {}, "current-snapshot-id": 77,
        "refs": {"main": {"snapshot-id": 77, "type": "branch"}},
        "snapshot-log": [{"snapshot-id": 77, "timestamp-ms": 1000}],
        "snapshots": [{"snapshot-id": 77, "timestamp-ms": 1000, "schema-id": 0,
            "manifest-list": format!("{ROOT}/metadata/list.avro")}]})
}

/// The metadata of a table is refused, or has a newest snapshot with columns, or says why it has none.
pub(crate) fn metadata(data: &[u8]) -> bool {
    let Ok(metadata) = Metadata::parse(data) else { return false };
    for wanted in [Wanted::Newest, Wanted::Named("main"), Wanted::Time(1_000)] {
        if let Ok(chosen) = metadata.choose(wanted)
            && let Ok(scan) = Scan::new(&metadata, chosen.schema)
        {
            assert!(scan.finish().files.is_empty());
        }
    }
    true
}

pub(crate) fn metadata_files() -> Vec<Vec<u8>> {
    vec![about_table().to_string().into_bytes()]
}

/// A manifest, or a list of them, is refused or read.
pub(crate) fn manifest(data: &[u8]) -> bool {
    let is_list = manifests(data).is_ok();
    let metadata = Metadata::parse(about_table().to_string().as_bytes()).expect("the metadata is sound");
    let mut scan = Scan::new(&metadata, 0).expect("the schema is sound");
    let is_manifest = scan.manifest(&Manifest::alone("file:///t/metadata/m0.avro"), data).is_ok();
    let _ = scan.finish();
    is_list || is_manifest
}

pub(crate) fn manifest_files() -> Vec<Vec<u8>> {
    let file = json!({"content": 0, "file_path": format!("{ROOT}/a.parquet"), "file_format": "PARQUET",
        "partition": {"id": 2}, "record_count": 3, "file_size_in_bytes": 700, "split_offsets": [4]});
    let entry = json!({"status": 1, "sequence_number": null, "data_file": file});
    let listed = json!({"manifest_path": format!("{ROOT}/metadata/m0.avro"), "partition_spec_id": 0,
        "manifest_length": 700, "content": 0, "sequence_number": 1});
    let partition = json!([{"name": "id", "type": ["null", "int"], "default": null, "field-id": 1000}]);
    let of_files = avro::of_manifest(&partition);
    let entries = [entry.clone(), entry];
    vec![
        avro::file(&of_files, "null", &entries),
        avro::file(&of_files, "deflate", &entries),
        avro::file(&avro::of_list(), "null", &[listed]),
    ]
}
