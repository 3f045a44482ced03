//! Files with deletion vectors whose bytes, places or contents are wrong.

use std::collections::BTreeSet;
use std::fs;

use forebay::{Dataset, ErrorKind};
use forebay_iceberg::{DeletionVector, Metadata, Scan, manifests};
use serde_json::{Value, json};

use super::{IcebergTable, MUTANTS, WRITTEN, avro, ids, next, with};

/// The rows of the file that the vectors are for.
const ROWS: u64 = 60_000;

/// Row sets as Roaring stores them, one container for each set: the second has runs, the others arrays.
fn roaring(sets: &[&[u16]]) -> Vec<u8> {
    let mut data = 1_681_511_377u32.to_le_bytes().to_vec();
    data.extend((sets.len() as u64).to_le_bytes());
    for (key, rows) in sets.iter().enumerate() {
        data.extend((key as u32).to_le_bytes());
        let count = ((rows.len() - 1) as u16).to_le_bytes();
        if key % 3 == 1 {
            data.extend(12_347u32.to_le_bytes());
            data.extend([&[1][..], &0u16.to_le_bytes(), &count].concat());
            data.extend((rows.len() as u16).to_le_bytes());
            data.extend(rows.iter().flat_map(|row| [row.to_le_bytes(), [0, 0]].concat()));
        } else {
            data.extend([12_346u32, 1].map(u32::to_le_bytes).concat());
            data.extend([&0u16.to_le_bytes()[..], &count, &16u32.to_le_bytes()].concat());
            data.extend(rows.iter().flat_map(|row| row.to_le_bytes()));
        }
    }
    data
}

fn framed(data: &[u8]) -> Vec<u8> {
    [&(data.len() as u32).to_be_bytes()[..], data, &crc32fast::hash(data).to_be_bytes()].concat()
}

/// Returns a Puffin file with one deletion vector, and the length of the vector with its frame.
fn puffin(data: &[u8], count: usize) -> (Vec<u8>, usize) {
    let blob = framed(data);
    let about = json!({"blobs": [{"type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1,
        "offset": 4, "length": blob.len(), "properties": {"referenced-data-file": format!("{WRITTEN}/a"),
            "cardinality": count.to_string()}}]});
    let about = about.to_string().into_bytes();
    let footer = [b"PFA1", &*about, &(about.len() as u32).to_le_bytes(), &[0; 4], b"PFA1"].concat();
    ([b"PFA1", &*blob, &footer].concat(), blob.len())
}

fn changed(bytes: &mut Vec<u8>, state: &mut u64) {
    for _ in 0..=next(state) % 3 {
        let at = next(state) as usize % bytes.len();
        match next(state) % 5 {
            0 => bytes[at] = next(state) as u8,
            1 => bytes[at] ^= 1 << (next(state) % 8),
            2 => bytes.truncate(at.max(1)),
            3 => bytes.insert(at, next(state) as u8),
            _ => bytes[at] = [0, 0xff, 0x7f][next(state) as usize % 3],
        }
    }
}

/// The vector that a manifest describes.
fn described(metadata: &Metadata, list: &[u8], entry: &Value) -> forebay::Result<DeletionVector> {
    let entries = [json!({"status": 1, "sequence_number": null, "data_file": entry})];
    let known = manifests(list)?;
    let mut scan = Scan::new(metadata, 0)?;
    scan.manifest(&known[1], &avro::file(&avro::of_manifest(&json!([])), "null", &entries))?;
    let rows = [json!({"status": 1, "sequence_number": null, "data_file": {"content": 0,
        "file_path": format!("{WRITTEN}/a"), "file_format": "PARQUET", "partition": {}, "record_count": ROWS,
        "file_size_in_bytes": 1}})];
    scan.manifest(&known[0], &avro::file(&avro::of_manifest(&json!([])), "null", &rows))?;
    Ok(*scan.finish().files.remove(0).deletion.unwrap())
}

/// In a third of the cases, changed contents get a new frame, so that their checksum is right.
#[test]
fn changed_vectors_give_the_deleted_rows_or_an_error() {
    let sets: [&[u16]; 3] = [&[3, 4, 5, 9, 70], &[0, 1, 500, 501], &[7, 8]];
    let (data, count) = (roaring(&sets), sets.iter().map(|set| set.len()).sum::<usize>());
    let (whole, length) = puffin(&data, count);
    let mut table = IcebergTable::of_ids();
    let file = table.ids("a", 0..1);
    let entry = with(
        table.puffin("d.puffin", "a", &[1]),
        json!({"record_count": count, "content_offset": 4,
        "content_size_in_bytes": length, "file_size_in_bytes": whole.len()}),
    );
    table.add(1, vec![file]).add(1, vec![entry.clone()]).write();
    let metadata = Metadata::parse(table.metadata().to_string().as_bytes()).unwrap();
    let list = fs::read(table.path().join("metadata/list.avro")).unwrap();
    let sound = described(&metadata, &list, &entry).unwrap();
    let expected = sound.rows(&whole[4..4 + length]).unwrap();
    let of_sets = sets
        .iter()
        .enumerate()
        .flat_map(|(key, set)| set.iter().map(move |row| (key as u64) << 32 | u64::from(*row)));
    assert!(expected.iter().flat_map(Clone::clone).eq(of_sets));
    let (mut state, mut refused) = (7, 0);
    for mutant in 0..MUTANTS {
        let (mut bytes, mut vector) = (whole.clone(), sound.clone());
        match mutant % 3 {
            // Bytes of the file are changed: in the vector, its frame, the magic bytes or the footer.
            0 => changed(&mut bytes, &mut state),
            // The contents are changed, and a new frame has the right checksum.
            1 => {
                let mut other = data.clone();
                changed(&mut other, &mut state);
                let blob = framed(&other);
                vector = described(
                    &metadata,
                    &list,
                    &with(
                        entry.clone(),
                        json!({
                    "content_size_in_bytes": blob.len(), "file_size_in_bytes": blob.len() + 8}),
                    ),
                )
                .unwrap();
                bytes = [b"PFA1", &*blob, b"PFA1"].concat();
            }
            // The manifest lies about the vector.
            _ => {
                let lie = [0, 1, 3, 12, length as i64 - 1, length as i64 + 1, -1, i64::MAX, i64::MIN]
                    [next(&mut state) as usize % 9];
                let name = ["content_offset", "content_size_in_bytes", "file_size_in_bytes", "record_count"]
                    [next(&mut state) as usize % 4];
                match described(&metadata, &list, &with(entry.clone(), json!({name: lie}))) {
                    Ok(lying) => vector = lying,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Corrupt, "{name} {lie}: {error}");
                        assert!(error.to_string().contains("d.puffin"), "{error}");
                        refused += 1;
                        continue;
                    }
                }
            }
        }
        let read = vector.range().and_then(|range| {
            let end = (range.end as usize).min(bytes.len());
            vector.rows(bytes.get(range.start as usize..end).unwrap_or_default())
        });
        match read {
            Ok(rows) => {
                assert!(rows.iter().all(|range| range.start < range.end));
                assert!(rows.windows(2).all(|pair| pair[0].end < pair[1].start), "{rows:?} does not ascend");
                let found: u64 = rows.iter().map(|range| range.end - range.start).sum();
                assert_eq!(found, count as u64, "as many as the manifest says");
                assert!(mutant % 3 == 1 || rows == expected, "{rows:?}");
                assert!(rows.len() <= bytes.len());
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                assert!(error.to_string().contains("the deletion vector cannot be read: "), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > MUTANTS / 3, "{refused}");
}

/// A table with a changed vector is refused with the name of its file, or read without the deleted rows.
#[test]
fn tables_with_changed_vectors_are_read_right_or_refused_with_the_place() {
    const FEW: usize = 400;
    let mut table = IcebergTable::of_ids();
    let file = table.ids("a", 0..100);
    let deleted = [3u16, 4, 50, 99];
    let (whole, length) = puffin(&roaring(&[&deleted]), deleted.len());
    let path = table.path().join("d.puffin");
    let entry = with(
        table.puffin("d.puffin", "a", &deleted),
        json!({"content_size_in_bytes": length,
        "file_size_in_bytes": whole.len()}),
    );
    table.add(1, vec![file]).add(1, vec![entry.clone()]).write();
    fs::write(&path, &whole).unwrap();
    let expected: BTreeSet<i64> = (0..100).filter(|id| !deleted.contains(&(*id as u16))).collect();
    assert_eq!(ids(&table.open().unwrap()), expected);
    let (mut state, mut refused) = (11, 0);
    for mutant in 0..FEW {
        let mut bytes = whole.clone();
        changed(&mut bytes, &mut state);
        fs::write(&path, &bytes).unwrap();
        match table.open() {
            Ok(dataset) => assert_eq!(ids(&dataset), expected, "mutant {mutant}"),
            Err(error) => {
                let is_typed = matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io);
                assert!(is_typed && error.to_string().contains("d.puffin"), "mutant {mutant}: {error}");
                refused += 1;
            }
        }
    }
    assert!(refused > FEW / 4, "{refused}");
    // These vectors have right checksums, but name rows that the file does not have, near and far.
    for beyond in [&[&[99, 100][..]][..], &[&[1], &[2]], &[&[1], &[1], &[1], &[1], &[1], &[1]]] {
        let count = beyond.iter().map(|set| set.len()).sum();
        let (bytes, length) = puffin(&roaring(beyond), count);
        fs::write(&path, &bytes).unwrap();
        table.manifests[1].2[0]["data_file"] = with(
            entry.clone(),
            json!({"record_count": count,
            "content_size_in_bytes": length, "file_size_in_bytes": bytes.len()}),
        );
        let error = table.refusal();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        let said = error.to_string();
        assert!(
            said.contains("/a: ") && (said.contains("beyond the 100") || said.contains("more than a file")),
            "{said}"
        );
    }
    assert!(Dataset::open(table.path()).is_err());
}
