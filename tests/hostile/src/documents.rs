//! Texts and pickles: schemas of Petastorm, positions, options and lists of denied rows.

use std::fs;
use std::sync::LazyLock;

use forebay::filter::col;
use forebay::{Dataset, Deny, Loader, LoaderSpec, Position};
use forebay_petastorm::{Unischema, row_groups_per_file};
use forebay_store::source::absolute;
use tempfile::TempDir;

use crate::parquet_files;

#[path = "../../../crates/petastorm/tests/schemas/written.rs"]
#[allow(dead_code, reason = "the tests of that crate use all of it")]
mod written;

/// A pickle is refused, or the schema that it holds names each field once.
pub(crate) fn petastorm(data: &[u8]) -> bool {
    let counts = row_groups_per_file(data);
    let Ok(schema) = Unischema::read(data) else { return counts.is_ok() };
    for field in &schema.fields {
        assert_eq!(schema.field(&field.name).map(|found| &found.name), Some(&field.name));
    }
    true
}

pub(crate) fn schemas() -> Vec<Vec<u8>> {
    let field = &written::PLAIN;
    let image =
        written::codec("CompressedImageCodec", &[("_image_codec", "S'.png'\n"), ("_quality", "I80\n")]);
    let of_images = written::Parts { name: "y", dtype: "cnumpy\nuint8\n", codec: &image, ..written::PLAIN };
    let decimal = written::spark("DecimalType", &[("precision", "I12\n"), ("scale", "I2\n")]);
    let scalar = written::codec("ScalarCodec", &[("_spark_type", &decimal)]);
    // The type is an object of numpy, and the shape `(5,)` is written as protocol 2 does.
    let of_decimals = written::Parts {
        name: "z",
        dtype: "cnumpy\ndtype\n(S'f8'\nI0\nI1\ntR",
        shape: "\u{8a}\u{1}\u{5}\u{85}",
        codec: &scalar,
        ..written::PLAIN
    };
    let fields = [
        ("x", field.as_new()),
        ("y", of_images.as_reconstructed()),
        ("x", field.as_restored()),
        ("z", of_decimals.as_new()),
    ];
    let pickles = fields.map(|field| written::bytes(&written::schema(&[field])));
    let counts = br#"{"a.parquet": 3, "b/c.parquet": 1}"#.to_vec();
    pickles.into_iter().chain([counts]).collect()
}

/// A small data set, a loader of it, and a mix of it with itself.
struct Small {
    folder: TempDir,
    plain: Loader,
    mix: Loader,
}

static DATA: LazyLock<Small> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.parquet"), &parquet_files::files()[0]).unwrap();
    let dataset = Dataset::open(folder.path()).unwrap();
    let plain = dataset.loader().batch_size(7).threads(1).build().unwrap();
    let sources = [2.0, 1.0].map(|weight| (dataset.loader().columns(["number"]), weight));
    let mix =
        Loader::mix(sources).unwrap().weights_from(4, [1.0, 3.0]).batch_size(9).threads(1).build().unwrap();
    Small { folder, plain, mix }
});

/// A position is refused, or stays the same when it is written and read again; a loader that restores it has
/// a position.
pub(crate) fn position(data: &[u8]) -> bool {
    let Ok(position) = serde_json::from_slice::<Position>(data) else { return false };
    let text = serde_json::to_string(&position).expect("a position can be written");
    let again: Position = serde_json::from_str(&text).expect("what was written can be read");
    assert_eq!(again, position);
    let mut restored = false;
    for loader in [&DATA.plain, &DATA.mix] {
        restored |= loader.restore(&position).is_ok();
        let _ = (loader.position(), loader.plan(0));
    }
    restored
}

pub(crate) fn positions() -> Vec<Vec<u8>> {
    let mut positions = Vec::new();
    for loader in [&DATA.plain, &DATA.mix] {
        positions.push(serde_json::to_vec(&loader.position()).unwrap());
        let mut epoch = loader.epoch(0);
        let _ = epoch.next();
        drop(epoch);
        positions.push(serde_json::to_vec(&loader.position()).unwrap());
    }
    positions
}

/// Options are refused, or stay the same when they are written and read again; a loader with them has a plan,
/// or says why it has none.
pub(crate) fn options(data: &[u8]) -> bool {
    let Ok(mut spec) = serde_json::from_slice::<LoaderSpec>(data) else { return false };
    let text = serde_json::to_string(&spec).expect("options can be written");
    let again: LoaderSpec = serde_json::from_str(&text).expect("what was written can be read");
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
    // The options must not write anything, or start a thousand threads.
    (spec.cache, spec.trace, spec.threads) = (None, None, Some(1));
    if let Ok(loader) = Dataset::open(DATA.folder.path()).unwrap().loader().spec(spec).build() {
        let _ = loader.plan(0);
    }
    true
}

pub(crate) fn all_options() -> Vec<Vec<u8>> {
    let wide = col("number").gt_eq(10) & col("word").in_list(["word 1", "word 2"]);
    let mut filtered = LoaderSpec::default();
    (filtered.filter, filtered.memory) = (Some(wide.into()), Some(64 << 20));
    let texts = [
        r#"{"columns": ["number", "word"], "batch_size": 8, "shuffle": {"seed": 17}, "shard": {"rank": 1, "world": 2}}"#,
        r#"{"null_mask": ["optional"], "fill_null": {"optional": 0}, "drop_last": true, "row_id": true}"#,
        r#"{"skip_steps": [[3, 5]], "global_batch_size": 12, "cast": {"number": "int32"}, "rename": {"word": "text"}}"#,
    ];
    let filtered = serde_json::to_vec(&filtered).expect("options can be written");
    texts.map(|text| text.as_bytes().to_vec()).into_iter().chain([filtered]).collect()
}

/// A list of denied rows is refused with its line, or read.
pub(crate) fn deny(data: &[u8]) -> bool {
    let path = DATA.folder.path().join("deny.txt");
    fs::write(&path, data).unwrap();
    let read = Deny::read(path.to_str().unwrap());
    fs::remove_file(&path).unwrap();
    if let Err(error) = &read {
        assert!(error.to_string().contains("deny.txt"), "{error} does not name the file");
    }
    read.is_ok()
}

pub(crate) fn deny_lists() -> Vec<Vec<u8>> {
    vec![b"0\n17 # a bad one\n\n4611686018427387904\n".to_vec()]
}

/// A location is refused, or made absolute once and for all.
pub(crate) fn location(data: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(data) else { return false };
    let Ok(whole) = absolute(text) else { return false };
    assert_eq!(absolute(&whole).ok(), Some(whole), "{text:?} becomes another location each time");
    true
}

pub(crate) fn locations() -> Vec<Vec<u8>> {
    let texts = [
        "data/train",
        "~/a/../b.parquet",
        "data/{train,extra}/[a-f]*/part-?.parquet",
        "file:///data/a%20b",
        "s3://bucket/a%2Fb/*.parquet",
        "https://account.blob.core.windows.net/container/folder?sig=abc",
        "hf://datasets/owner/name@main/data/*.parquet",
        "hdfs://name:8020/user/data",
        "iceberg+rest://host/catalog/space.table",
    ];
    texts.map(|text| text.as_bytes().to_vec()).into()
}
