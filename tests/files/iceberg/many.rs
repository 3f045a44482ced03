//! A table of many files.
#![allow(clippy::print_stdout, reason = "the test prints what it measured")]

use std::fs;

use forebay::Dataset;
use serde_json::{Value, json};

use super::{IcebergTable, WRITTEN, avro, with};

/// The processor time of this process so far, in hundredths of a second, and its largest memory in KiB.
fn used() -> (u64, u64) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let ticks = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    (
        ticks.map(|ticks| ticks.parse::<u64>().unwrap()).sum(),
        peak.trim().trim_end_matches(" kB").parse().unwrap(),
    )
}

/// The test must run alone because it measures the time and the memory of the whole process. Only the first
/// file exists, so reading the footer of another one would fail.
#[test]
#[ignore = "writes a hundred manifests; run it alone"]
fn a_hundred_thousand_files_in_a_hundred_manifests_open_in_time_and_memory() {
    const MANIFESTS: usize = 100;
    const FILES: usize = 1_000;
    const COLUMNS: i32 = 8;
    const MOST_TICKS: u64 = 500;
    const MOST_KIB: u64 = 300 << 10;
    let fields = (1..=COLUMNS).map(|id| json!({"id": id, "name": format!("c{id}"), "type": "long"}));
    let mut table = IcebergTable::new(json!(fields.collect::<Vec<_>>()));
    table.fields[0]["name"] = json!("id");
    let sound = table.ids("part-000-00000-a", [1]);
    let all = |of: &dyn Fn(i32) -> Value| {
        json!((1..=COLUMNS).map(|id| json!({"key": id, "value": of(id)})).collect::<Vec<_>>())
    };
    let (least, most, nulls) = (
        all(&|id| json!(i64::from(id).to_le_bytes())),
        all(&|id| json!(i64::from(id * 1_000).to_le_bytes())),
        all(&|_| json!(0)),
    );
    let folder = table.path().join("metadata");
    let mut listed = Vec::new();
    for at in 0..MANIFESTS {
        let entries = (0..FILES).map(|file| {
            let file = with(
                sound.clone(),
                json!({"file_path": format!("{WRITTEN}/part-{at:03}-{file:05}-a"),
                "lower_bounds": least, "upper_bounds": most, "null_value_counts": nulls}),
            );
            json!({"status": 1, "sequence_number": null, "data_file": file})
        });
        let entries: Vec<Value> = entries.collect();
        let bytes = avro::file(&avro::of_manifest(&json!([])), "deflate", &entries);
        fs::write(folder.join(format!("m{at}.avro")), &bytes).unwrap();
        listed
            .push(json!({"manifest_path": format!("{WRITTEN}/metadata/m{at}.avro"), "partition_spec_id": 0,
            "manifest_length": bytes.len(), "content": 0, "sequence_number": 1, "first_row_id": at * FILES}));
    }
    fs::write(folder.join("list.avro"), avro::file(&avro::of_list(), "deflate", &listed)).unwrap();
    fs::write(folder.join("v1.metadata.json"), table.metadata().to_string()).unwrap();
    // The peak of memory is measured anew from here on, because writing the manifests took more.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let (before, start) = (used().0, std::time::Instant::now());
    let dataset = Dataset::open(table.path()).unwrap();
    let elapsed = start.elapsed();
    let (after, peak) = used();
    println!("{elapsed:?}, {} ticks, {peak} KiB at most", after - before);
    assert_eq!(dataset.rows(), (MANIFESTS * FILES) as u64);
    assert!(after - before < MOST_TICKS && peak < MOST_KIB, "{} ticks, {peak} KiB", after - before);
}
