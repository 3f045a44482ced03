//! Files of Avro, as Iceberg writes them: records whose fields have numbers.
//!
//! A reader of containers that takes nothing from their counts: a value is made of bytes that are there, and a
//! block holds no more than [`LARGEST_BLOCK`].

mod codec;
mod schema;
mod values;

use std::collections::HashMap;

use forebay_base::{Error, ErrorKind, Result};

use codec::Codec;
use schema::Schema;
use values::Input;
pub(crate) use values::{Value, Wanted};

const MAGIC: &[u8] = b"Obj\x01";

/// The bytes between blocks.
const MARKER: usize = 16;

/// Bytes that a block may have once it is decompressed. Writers begin another one at 64 KiB.
const LARGEST_BLOCK: usize = 64 << 20;

/// How many times as many bytes as it has a file may have once it is decompressed, beyond one block.
const MOST_EXPANSION: usize = 200;

/// Takes each record of a file: of its fields those that are wanted.
///
/// # Errors
/// `Corrupt` for a file that is damaged, `Unsupported` for an unknown codec; as `take` does.
pub(crate) fn each(bytes: &[u8], wanted: Wanted, mut take: impl FnMut(Value) -> Result<()>) -> Result<()> {
    let mut input = Input::new(bytes);
    let header = header(&mut input).ok_or_else(|| malformed("it has no header of Avro"))?;
    let text = header.get("avro.schema").and_then(|bytes| std::str::from_utf8(bytes).ok());
    let schema =
        Schema::parse(text.unwrap_or_default()).ok_or_else(|| malformed("its schema makes no sense"))?;
    let codec = Codec::of(header.get("avro.codec").map_or(b"null", |name| name))?;
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
            // A record without a byte could come without end.
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
