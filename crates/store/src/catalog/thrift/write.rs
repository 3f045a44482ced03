//! Encodes values in Thrift's compact protocol.

use super::kinds::STRUCT;

/// The largest count that fits into the header byte of a list.
const SHORT_LIST: usize = 14;

/// The header of a field that names its id, so that it may come after any other field.
pub(crate) fn field_header(id: i16, kind: u8) -> Vec<u8> {
    let mut header = vec![kind];
    varint(&mut header, zigzag(id.into()));
    header
}

/// The header of a list of structures.
pub(crate) fn list_of_structures(count: usize) -> Vec<u8> {
    if count <= SHORT_LIST {
        return vec![(count as u8) << 4 | STRUCT];
    }
    let mut header = vec![0xf << 4 | STRUCT];
    varint(&mut header, count as u64);
    header
}

/// Encodes bytes or a text: its length, and then its bytes.
pub(crate) fn binary(bytes: &[u8]) -> Vec<u8> {
    let mut made = Vec::with_capacity(bytes.len() + 1);
    varint(&mut made, bytes.len() as u64);
    made.extend_from_slice(bytes);
    made
}

/// Encodes an integer of 16, 32 or 64 bits.
pub(crate) fn int(number: i64) -> Vec<u8> {
    let mut made = Vec::new();
    varint(&mut made, zigzag(number));
    made
}

/// Maps integers to numbers without a sign, so that small negative ones take few bytes, too.
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

fn varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_names_any_id() {
        assert_eq!(field_header(1, 5), [5, 2]);
        assert_eq!(field_header(100, 8), [8, 200, 1]);
        assert_eq!(field_header(-1, 8), [8, 1]);
    }

    #[test]
    fn long_lists_have_their_count_after_the_header_byte() {
        assert_eq!(list_of_structures(14), [0xec]);
        assert_eq!(list_of_structures(15), [0xfc, 15]);
        assert_eq!(list_of_structures(200), [0xfc, 200, 1]);
    }
}
