//! Reads Avro files as Iceberg writes them: records whose fields have ids.
//!
//! The reader trusts no count in a file: values are made only of bytes that exist, and a block holds at most
//! [`LARGEST_BLOCK`] bytes.

mod codec;
mod schema;
mod values;

use std::collections::HashMap;

use forebay_base::{Error, ErrorKind, Result};

use codec::BlockCodec;
use schema::Schema;
use values::Input;
pub(crate) use values::{AvroValue, Wanted};

const MAGIC: &[u8] = b"Obj\x01";

/// The number of bytes in the marker that ends each block.
const MARKER: usize = 16;

/// The most bytes of a block once it is decompressed. Writers begin a new block after 64 KiB.
const LARGEST_BLOCK: usize = 64 << 20;

/// A file may decompress to at most this many times its compressed size, plus one block of the largest size.
const MOST_EXPANSION: usize = 200;

/// Passes each record of a file to `take`, with the wanted fields only.
///
/// # Errors
/// `Corrupt` for a damaged file, `Unsupported` for an unknown codec, and the errors of `take`.
pub(crate) fn each(
    bytes: &[u8],
    wanted: Wanted,
    mut take: impl FnMut(AvroValue) -> Result<()>,
) -> Result<()> {
    let mut input = Input::new(bytes);
    let header = header(&mut input).ok_or_else(|| malformed("it has no header of Avro"))?;
    let text = header.get("avro.schema").and_then(|bytes| std::str::from_utf8(bytes).ok());
    let schema =
        Schema::parse(text.unwrap_or_default()).ok_or_else(|| malformed("its schema makes no sense"))?;
    let codec = BlockCodec::from_name(header.get("avro.codec").map_or(b"null", |name| name))?;
    let marker = input.take(MARKER).ok_or_else(|| malformed("it ends early"))?;
    let mut left = LARGEST_BLOCK.saturating_add(bytes.len().saturating_mul(MOST_EXPANSION));
    while !input.is_empty() {
        let block = (|| Some((input.long()?, input.bytes()?, input.take(MARKER)?)))();
        let (count, data, end) = block.ok_or_else(|| malformed("it ends within a block"))?;
        if end != marker {
            return Err(malformed("a block ends where the next one does not begin"));
        }
        let data = codec.decompressed(data, LARGEST_BLOCK.min(left))?;
        left = left.saturating_sub(data.len());
        let mut records = Input::new(&data);
        for _ in 0..count {
            // A record of an odd schema can take no bytes at all, so a wrong count could otherwise repeat
            // this loop almost for ever.
            if records.is_empty() {
                return Err(malformed("a block has fewer records than it says"));
            }
            let value = schema.value(&mut records, wanted);
            take(value.ok_or_else(|| malformed("a record makes no sense"))?)?;
        }
        if !records.is_empty() {
            return Err(malformed("a block has more records than it says"));
        }
    }
    Ok(())
}

fn header<'a>(input: &mut Input<'a>) -> Option<HashMap<String, &'a [u8]>> {
    if input.take(MAGIC.len())? != MAGIC {
        return None;
    }
    let mut pairs = HashMap::new();
    loop {
        let count = input.block()?;
        if count == 0 {
            return Some(pairs);
        }
        for _ in 0..count {
            let key = std::str::from_utf8(input.bytes()?).ok()?.to_owned();
            pairs.insert(key, input.bytes()?);
        }
    }
}

fn malformed(why: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the file cannot be read: {why}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    const ALL: Wanted = Wanted::fields(&[1], 1);

    fn long(number: i64) -> Vec<u8> {
        let (mut left, mut bytes) = ((number << 1 ^ number >> 63) as u64, Vec::new());
        while left >= 0x80 {
            bytes.push(left as u8 | 0x80);
            left >>= 7;
        }
        bytes.push(left as u8);
        bytes
    }

    fn with_length(bytes: &[u8]) -> Vec<u8> {
        [&long(bytes.len() as i64), bytes].concat()
    }

    fn file(schema: &Json, codec: &str, count: i64, block: &[u8]) -> Vec<u8> {
        let pairs = [("avro.schema", schema.to_string()), ("avro.codec", codec.to_owned())];
        let pairs =
            pairs.map(|(key, value)| [with_length(key.as_bytes()), with_length(value.as_bytes())].concat());
        let marker = [7; MARKER];
        [MAGIC, &long(2), &pairs.concat(), &long(0), &marker, &long(count), &with_length(block), &marker]
            .concat()
    }

    fn record(of: &Json) -> Json {
        json!({"type": "record", "name": "r", "fields": [{"name": "a", "type": of, "field-id": 1}]})
    }

    fn refused(bytes: &[u8]) -> String {
        each(bytes, ALL, |_| Ok(())).unwrap_err().to_string()
    }

    #[test]
    fn files_that_claim_more_than_they_hold_are_refused_at_once() {
        let nothing = json!({"type": "array", "items": "null"});
        let endless = [long(i64::MAX), long(0)].concat();
        assert!(refused(&file(&record(&nothing), "null", 1, &endless)).contains("makes no sense"));
        let texts = json!({"type": "array", "items": "string"});
        assert!(refused(&file(&record(&texts), "null", 1, &endless)).contains("makes no sense"));
        assert!(
            refused(&file(&record(&json!("long")), "null", i64::MAX, &long(7))).contains("fewer records")
        );
        assert!(
            refused(&file(&record(&json!("long")), "null", 1, &long(7).repeat(2))).contains("more records")
        );
        assert!(refused(&file(&record(&json!("null")), "null", 1 << 40, &[])).contains("fewer records"));
        assert!(
            refused(&file(&record(&json!("bytes")), "null", 1, &long(i64::MAX))).contains("makes no sense")
        );
        assert!(
            refused(&file(&record(&json!("long")), "lzma", 1, &[])).contains("\"lzma\", which is not read")
        );
    }

    #[test]
    fn schemas_that_refer_to_themselves_end() {
        let circle =
            json!({"type": "record", "name": "r", "fields": [{"name": "a", "type": "r", "field-id": 1}]});
        assert!(refused(&file(&circle, "null", 1, &[0])).contains("makes no sense"));
        // Each record type contains the one before it twice, so a value of the last type has 2^24 parts but
        // takes no byte of the input.
        let mut doubled = json!("null");
        for depth in 0..24 {
            let pair = |name: &str, of: Json| json!({"name": name, "type": of, "field-id": 1});
            let of = if depth == 0 { json!("null") } else { json!(format!("r{}", depth - 1)) };
            let name = format!("r{depth}");
            doubled = json!({"type": "record", "name": name, "fields": [pair("a", doubled), pair("b", of)]});
        }
        assert!(refused(&file(&doubled, "null", 1, &[0])).contains("makes no sense"));
    }

    #[test]
    fn a_block_that_unfolds_without_end_is_refused() {
        let zeros = vec![0; LARGEST_BLOCK + 1];
        let packed = zstd::encode_all(&*zeros, 1).unwrap();
        let error = refused(&file(&record(&json!("bytes")), "zstandard", 1, &packed));
        assert!(error.contains("more than") && error.contains("once it is decompressed"), "{error}");
    }
}
