//! Deletion vectors of Delta Lake, written by hand.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// Returns rows as a deletion vector.
pub(crate) fn vector(rows: &BTreeSet<u16>) -> Vec<u8> {
    let mut bytes = 1_681_511_377u32.to_le_bytes().to_vec();
    bytes.extend(1u64.to_le_bytes());
    bytes.extend([0u32, 12_346, 1].map(u32::to_le_bytes).concat());
    bytes.extend([0, rows.len() as u16 - 1].map(u16::to_le_bytes).concat());
    bytes.extend(0u32.to_le_bytes());
    bytes.extend(rows.iter().flat_map(|row| row.to_le_bytes()));
    bytes
}

/// Returns bytes as text in Z85, the form in which the log stores them.
pub(crate) fn z85(bytes: &[u8]) -> String {
    const CHARACTERS: &[u8] =
        b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let five = |four: &[u8]| {
        let number = four.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
        (0..5u32).rev().map(move |power| CHARACTERS[(number / 85u32.pow(power) % 85) as usize] as char)
    };
    bytes.chunks(4).flat_map(five).collect()
}

/// Returns rows as a deletion vector that is stored in the log.
pub(crate) fn inline(rows: &BTreeSet<u16>) -> Value {
    let bytes = vector(rows);
    json!({"storageType": "i", "pathOrInlineDv": z85(&bytes), "sizeInBytes": bytes.len(), "cardinality": rows.len()})
}
