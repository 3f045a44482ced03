//! Reads as much of Thrift's compact protocol as is needed to check a header before the Parquet crate reads
//! it.
//!
//! The Parquet crate's own reader is private, and it reserves memory for a list before it reads the elements.
//! It only limits the number of elements to the number of bytes that are left, but an element may take one
//! byte in the file and many more in memory. From a stream it reserves memory for any length that a string
//! claims. Nothing here reserves memory by a length alone: only [`Compact::list_of`] allocates, and for at
//! most as many elements as there are bytes.
//!
//! Bytes that are accepted here must mean the same to the Parquet crate; otherwise a second meaning would get
//! past every check. The Parquet crate looks only at a field's id, whatever type is written, and truncates
//! integers to the declared width. So a field must be written with the type that is [`declared`], and unknown
//! bytes that the two readers would skip differently are refused.

pub(crate) mod declared;
mod edits;
mod kinds;
pub(crate) mod write;

use declared::{Field, Kind, STATISTICS};
use kinds::{BYTE, DOUBLE, I16, MAP, SET};

pub(crate) use edits::Edits;
pub(crate) use kinds::{BINARY, BOOL_FALSE, BOOL_TRUE, I32, I64, LIST, STRUCT};

/// How deeply structures may be nested in values that are skipped. The structures of Parquet have five
/// levels.
const DEEPEST: u32 = 32;

/// The most bytes that a 64-bit variable-length integer takes.
const LONGEST_VARINT: u32 = 10;

/// Bytes that are read from the front. Methods that read return `None` if the bytes end too early or are
/// invalid.
pub struct Compact<'a> {
    rest: &'a [u8],
    /// The number of all bytes, also of those that were read.
    length: usize,
    /// The changes that remove what a structure does not declare; `None` if such bytes are refused.
    edits: Option<Edits>,
    /// Whether the field that was read last is not written as it is declared, and was skipped.
    is_misfit: bool,
}

impl<'a> Compact<'a> {
    /// Starts to read at the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Compact { rest: bytes, length: bytes.len(), edits: None, is_misfit: false }
    }

    /// Starts to read `bytes`. A field that is not written with the declared type is skipped, as the readers
    /// do that Thrift generates, and [`edits`](Self::edits) removes it from a copy.
    pub(crate) fn lenient(bytes: &'a [u8]) -> Self {
        Compact { edits: Some(Edits::default()), ..Compact::new(bytes) }
    }

    /// The changes for a copy of the bytes that another reader accepts. Only a lenient reader has any.
    pub(crate) fn edits(&mut self) -> &mut Edits {
        self.edits.get_or_insert_default()
    }

    /// The number of bytes that were read.
    pub(crate) fn position(&self) -> usize {
        self.length - self.rest.len()
    }

    /// The next byte, which is left unread.
    pub(crate) fn next(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// The number of unread bytes.
    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Reads a structure. Calls `field` with the id and the type of each field; `field` reads or skips the
    /// value.
    pub fn structure(&mut self, mut field: impl FnMut(&mut Self, i16, u8) -> Option<()>) -> Option<()> {
        // The id of the last field, and of the last one that is not removed.
        let (mut id, mut kept) = (0i16, 0i16);
        loop {
            let (start, before) = (self.position(), id);
            let header = self.byte()?;
            if header == 0 {
                return Some(());
            }
            id = match header >> 4 {
                0 => i16::try_from(self.int()?).ok()?,
                delta => id.checked_add(i16::from(delta))?,
            };
            let content = self.position();
            let kind = header & 0x0f;
            field(self, id, kind)?;
            if std::mem::take(&mut self.is_misfit) {
                let end = self.position();
                self.edits().remove(start..end);
                continue;
            }
            // A header counts from the field before, so the one after a removed field is written anew.
            if before != kept {
                self.edits().replace(start..content, &write::field_header(id, kind));
            }
            kept = id;
        }
    }

    /// Reads a list's header: the number of elements and their type. Each element takes at least one byte, so
    /// there must be as many bytes left.
    fn list(&mut self) -> Option<(usize, u8)> {
        let header = self.byte()?;
        let count = match header >> 4 {
            0x0f => usize::try_from(self.varint()?).ok()?,
            count => usize::from(count),
        };
        (count <= self.rest.len()).then_some((count, header & 0x0f))
    }

    /// Reads the header of a list of structures, and returns the number of elements. `kind` is the field's
    /// written type.
    pub(crate) fn list_of_structures(&mut self, kind: u8) -> Option<usize> {
        let (count, element) = (kind == LIST).then(|| self.list_of_declared(STRUCT))??;
        (count == 0 || element == STRUCT).then_some(count)
    }

    /// Reads a list's header like [`list`](Self::list). An empty list may be written with any type of
    /// elements; the copy gets the declared one.
    fn list_of_declared(&mut self, declared: u8) -> Option<(usize, u8)> {
        let start = self.position();
        let (count, element) = self.list()?;
        if count == 0 && element != declared && self.edits.is_some() {
            let end = self.position();
            self.edits().replace(start..end, &[declared]);
        }
        Some((count, element))
    }

    /// Reads a 32-bit integer. Returns `None` if `kind`, the field's written type, is another one.
    #[inline]
    pub fn i32(&mut self, kind: u8) -> Option<i32> {
        (kind == I32).then(|| i32::try_from(self.int()?).ok())?
    }

    /// Reads a 64-bit integer. Returns `None` if `kind`, the field's written type, is another one.
    pub fn i64(&mut self, kind: u8) -> Option<i64> {
        (kind == I64).then(|| self.int())?
    }

    /// Reads a list. `kind` is the field's written type, and `element` reads an element of the type that it
    /// is given. Memory is reserved for at most as many elements as there are bytes.
    pub fn list_of<T>(
        &mut self,
        kind: u8,
        mut element: impl FnMut(&mut Self, u8) -> Option<T>,
    ) -> Option<Vec<T>> {
        let (count, kind) = (kind == LIST).then(|| self.list())??;
        (0..count).map(|_| element(self, kind)).collect()
    }

    /// Reads a boolean that is an element of a list, where it takes a byte.
    pub fn bool_element(&mut self, kind: u8) -> Option<bool> {
        matches!(kind, BOOL_TRUE | BOOL_FALSE).then(|| Some(self.byte()? == BOOL_TRUE))?
    }

    /// The value of a boolean field. It is written as the type: one type means true, another one false.
    pub(crate) fn bool(kind: u8) -> Option<bool> {
        matches!(kind, BOOL_TRUE | BOOL_FALSE).then_some(kind == BOOL_TRUE)
    }

    /// Skips a text or bytes, and returns their length.
    pub(crate) fn binary(&mut self, kind: u8) -> Option<u64> {
        Some(self.bytes(kind)?.len() as u64)
    }

    /// Reads a text or bytes. `kind` is the field's written type.
    pub fn bytes(&mut self, kind: u8) -> Option<&'a [u8]> {
        let length = (kind == BINARY).then(|| self.varint())??;
        let rest = self.rest;
        self.take(length)?;
        Some(&rest[..rest.len() - self.rest.len()])
    }

    /// Skips the value of a field. If the field is in `declared`, it must be written with the declared type.
    pub(crate) fn field(&mut self, declared: &[Field], id: i16, kind: u8) -> Option<()> {
        // Most structures have fields with ids from 1 without gaps, so the place of a field follows from its
        // id.
        let likely = usize::try_from(id).ok().and_then(|id| declared.get(id.checked_sub(1)?));
        let likely = likely.filter(|(declared, _)| *declared == id);
        match likely.or_else(|| declared.iter().find(|(declared, _)| *declared == id)) {
            Some((_, declared)) if self.edits.is_some() && !declared.is_written_as(kind) => {
                self.skip(kind)?;
                self.is_misfit = true;
                Some(())
            }
            Some((_, declared)) => self.declared(declared, kind),
            None => self.skip(kind),
        }
    }

    /// Reads the next field, if its header is this byte and it is a 32-bit integer.
    #[inline(always)]
    pub(crate) fn i32_after(&mut self, header: u8) -> Option<i32> {
        let (&first, rest) = self.rest.split_first()?;
        if first != header {
            return None;
        }
        self.rest = rest;
        self.i32(header & 0x0f)
    }

    /// Reads the header of the next field, if it is one of these bytes.
    #[inline]
    pub(crate) fn next_of<const N: usize>(&mut self, headers: [u8; N]) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        if !headers.contains(&first) {
            return None;
        }
        self.rest = rest;
        Some(first)
    }

    /// Skips the statistics of a page, which must be written with the declared types. Nearly every page has
    /// them, so this is quicker than [`field`](Self::field): it does not look up each declaration.
    pub(crate) fn statistics(&mut self, kind: u8) -> Option<()> {
        (kind == STRUCT).then_some(())?;
        if let Some(rest) = after_statistics(self.rest) {
            self.rest = rest;
            return Some(());
        }
        self.structure(|input, id, kind| match (id, kind) {
            (1 | 2 | 5 | 6, BINARY) => {
                let length = input.varint()?;
                input.take(length)
            }
            (3 | 4, I64) => input.varint().map(drop),
            (7 | 8, BOOL_TRUE | BOOL_FALSE) => Some(()),
            _ => input.field(STATISTICS, id, kind),
        })
    }

    fn declared(&mut self, declared: &Kind, kind: u8) -> Option<()> {
        if !declared.is_written_as(kind) {
            return None;
        }
        match declared {
            Kind::I16 => i16::try_from(self.int()?).ok().map(drop),
            Kind::I32 => i32::try_from(self.int()?).ok().map(drop),
            Kind::List(element) => {
                let (count, kind) = self.list_of_declared(element.written())?;
                (0..count).try_for_each(|_| match kind == element.written() {
                    true => self.declared(element, kind),
                    // A list with elements of another type is only skipped here: the Parquet crate refuses
                    // it, and says why.
                    false => self.skip_element(kind, DEEPEST),
                })
            }
            Kind::Struct(fields) => self.structure(|input, id, kind| input.field(fields, id, kind)),
            Kind::Bool | Kind::I8 | Kind::I64 | Kind::Double | Kind::Binary => self.skip(kind),
        }
    }

    /// Reads an integer of 16, 32 or 64 bits.
    #[inline]
    fn int(&mut self) -> Option<i64> {
        let zigzag = self.varint()?;
        Some((zigzag >> 1).cast_signed() ^ -((zigzag & 1).cast_signed()))
    }

    /// Skips a value of this type, which must be that of a structure's field (lists store booleans
    /// differently).
    pub fn skip(&mut self, kind: u8) -> Option<()> {
        self.skip_within(kind, DEEPEST)
    }

    fn skip_within(&mut self, kind: u8, depth: u32) -> Option<()> {
        let deeper = depth.checked_sub(1)?;
        match kind {
            BOOL_TRUE | BOOL_FALSE => Some(()),
            BYTE => self.take(1),
            I16..=I64 => self.varint().map(drop),
            DOUBLE => self.take(size_of::<f64>() as u64),
            BINARY => {
                let length = self.varint()?;
                self.take(length)
            }
            LIST | SET => {
                let (count, element) = self.list()?;
                (0..count).try_for_each(|_| self.skip_element(element, deeper))
            }
            MAP => {
                let count = self.varint()?;
                if count == 0 {
                    return Some(());
                }
                let kinds = self.byte()?;
                (0..count).try_for_each(|_| {
                    self.skip_element(kinds >> 4, deeper)?;
                    self.skip_element(kinds & 0x0f, deeper)
                })
            }
            STRUCT => self.structure(|input, _, kind| input.skip_within(kind, deeper)),
            _ => None,
        }
    }

    /// Skips an element of a list or map. Booleans are refused: each takes a byte in a list, but the Parquet
    /// crate skips no bytes for them. No header has a list of booleans.
    fn skip_element(&mut self, kind: u8, depth: u32) -> Option<()> {
        match kind {
            BOOL_TRUE | BOOL_FALSE => None,
            other => self.skip_within(other, depth),
        }
    }

    #[inline]
    fn varint(&mut self) -> Option<u64> {
        // Most integers have one byte.
        if let Some((&byte @ ..0x80, rest)) = self.rest.split_first() {
            self.rest = rest;
            return Some(byte.into());
        }
        self.long_varint()
    }

    /// Reads an integer that takes more than one byte.
    fn long_varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for place in 0..LONGEST_VARINT {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << (7 * place).min(63);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    #[inline]
    fn take(&mut self, length: u64) -> Option<()> {
        self.rest = self.rest.get(usize::try_from(length).ok()?..)?;
        Some(())
    }
}

/// Skips the statistics of a page of numbers, up to the end of their structure, if they have the form that
/// most writers use: the largest and the least value, of 4 or 8 bytes; a small number of nulls; both values
/// again; and whether they are exact. Returns the remaining bytes, or `None` for other forms. This is quicker
/// than reading field by field, where each read must wait for the length in the one before.
#[inline]
fn after_statistics(bytes: &[u8]) -> Option<&[u8]> {
    match bytes.get(1)? {
        4 => after_statistics_of::<4>(bytes),
        8 => after_statistics_of::<8>(bytes),
        _ => None,
    }
}

#[inline]
fn after_statistics_of<const WIDTH: usize>(bytes: &[u8]) -> Option<&[u8]> {
    /// A distance of one between the ids of two fields, as it is written in the upper half of the second
    /// field's header byte.
    const NEXT: u8 = 1 << 4;
    /// The largest number of nulls that is written in one byte.
    const LAST_NULLS: u8 = 0x7f;
    let (value, nulls) = (2 + WIDTH, 2);
    let (again, exact) = (2 * value + nulls, 4 * value + nulls);
    let (fields, rest) = (bytes.get(..exact)?, &bytes[exact..]);
    let is_value = |at: usize, distance: u8| fields[at..at + 2] == [(distance * NEXT) | BINARY, WIDTH as u8];
    let are_values = is_value(0, 1) & is_value(value, 1) & is_value(again, 2) & is_value(again + value, 1);
    let are_nulls = fields[2 * value] == NEXT | I64 && fields[2 * value + 1] <= LAST_NULLS;
    let is_flag = |byte: u8| byte == NEXT | BOOL_TRUE || byte == NEXT | BOOL_FALSE;
    match rest {
        [0, rest @ ..] if are_values && are_nulls => Some(rest),
        [a, b, 0, rest @ ..] if are_values && are_nulls && is_flag(*a) && is_flag(*b) => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_and_others_skipped() {
        // {1: i32 = -3, 2: binary "ab", 4: list<i32> [1, 2], 20: true}, then a byte that is not part of it.
        let bytes = [0x15, 5, 0x18, 2, b'a', b'b', 0x29, 0x25, 2, 4, 0x01, 40, 0, 0xff];
        let mut input = Compact::new(&bytes);
        let mut seen = Vec::new();
        input
            .structure(|input, id, kind| {
                seen.push(id);
                if id == 1 {
                    assert_eq!(input.i32(kind)?, -3);
                    return Some(());
                }
                input.skip(kind)
            })
            .unwrap();
        assert_eq!(seen, [1, 2, 4, 20]);
        assert_eq!(input.remaining(), 1);
    }

    #[test]
    fn lengths_that_are_not_there_and_endless_depth_are_refused() {
        let skip = |bytes: &[u8]| Compact::new(bytes).skip(STRUCT);
        assert!(skip(&[0x18, 0xff, 0xff, 0xff, 0xff, 0x7f, 1]).is_none());
        assert!(skip(&[0x19, 0xfc, 0xff, 0xff, 0xff, 0x7f]).is_none());
        assert!(skip(&[0x1c; 1000]).is_none());
        assert!(skip(&[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).is_none());
    }

    /// The structure {1: i32, 2: i16, 3: list<i32>, 4: bool} must be written with these types.
    #[test]
    fn a_field_that_is_not_written_as_declared_is_refused() {
        const FIELDS: [Field; 4] =
            [(1, Kind::I32), (2, Kind::I16), (3, Kind::List(&Kind::I32)), (4, Kind::Bool)];
        let read = |bytes: &[u8]| {
            let mut input = Compact::new(bytes);
            input.structure(|input, id, kind| input.field(&FIELDS, id, kind))?;
            (input.remaining() == 0).then_some(())
        };
        let one = |header: u8, value: i64| [vec![header], write::int(value), vec![0]].concat();
        for value in [0, 1, -1, i64::from(i32::MAX), i64::from(i32::MIN)] {
            assert!(read(&one(0x15, value)).is_some(), "{value}");
        }
        for value in [1 << 31, (1 << 32) + 1, 1 - (1 << 32), i64::MAX, i64::MIN] {
            assert!(read(&one(0x15, value)).is_none(), "{value}");
            let list = [vec![0x39, 0x15], write::int(value), vec![0]].concat();
            assert!(read(&list).is_none(), "{value} in a list");
        }
        assert!(read(&one(0x24, 1 << 15)).is_none());
        // Each field is written with every type, of which only the declared one is accepted.
        for kind in 0..16 {
            let value = [1; 8];
            for (id, declared) in &FIELDS {
                let bytes = [&[(id << 4) as u8 | kind][..], &value].concat();
                let fits = kind == declared.written() || *id == 4 && kind == BOOL_FALSE;
                let read = Compact::new(&bytes).structure(|input, id, kind| {
                    input.field(&FIELDS, id, kind)?;
                    assert!(fits, "{id} as {kind}");
                    None
                });
                assert!(read.is_none() || kind == 0);
            }
        }
    }

    /// Statistics of numbers, and copies of them with one byte changed, give the same result in the quick way
    /// as field by field.
    #[test]
    fn usual_statistics_end_where_their_fields_end() {
        let declared = |bytes: &[u8]| {
            let mut input = Compact::new(bytes);
            input.declared(&Kind::Struct(STATISTICS), STRUCT).map(|()| input.remaining())
        };
        let skipped = |bytes: &[u8]| {
            let mut input = Compact::new(bytes);
            input.statistics(STRUCT).map(|()| input.remaining())
        };
        for width in [4u8, 8] {
            let value = |header: u8| [&[header, width][..], &vec![0x18; width.into()]].concat();
            let values = [value(0x18), value(0x18), vec![0x16, 20], value(0x28), value(0x18)].concat();
            for end in [&[0x11, 0x12, 0][..], &[0]] {
                let bytes = [&values, end, &[0, 0, 7]].concat();
                assert_eq!(after_statistics(&bytes), Some(&[0, 0, 7][..]));
                for at in 0..bytes.len() {
                    for byte in 0..=u8::MAX {
                        let mut changed = bytes.clone();
                        changed[at] = byte;
                        assert_eq!(skipped(&changed), declared(&changed), "{byte:#x} at {at} of {width}");
                    }
                    assert_eq!(skipped(&bytes[..at]), declared(&bytes[..at]), "the first {at} bytes");
                }
            }
        }
    }

    /// The Parquet crate skips a list of booleans without its elements. It would then read the following
    /// bytes differently than this code.
    #[test]
    fn booleans_in_lists_and_maps_are_refused() {
        for bytes in [&[0x19, 0x21, 1, 1, 0][..], &[0x19, 0x22, 1, 1, 0], &[0x1b, 1, 0x31, 1, 1, 0]] {
            assert!(Compact::new(bytes).skip(STRUCT).is_none(), "{bytes:?}");
        }
    }
}
