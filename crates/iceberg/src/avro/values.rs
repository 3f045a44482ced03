//! The values of an Avro file, and the input that they are decoded from.

/// A value in an Avro file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AvroValue {
    Null,
    Boolean(bool),
    Int(i32),
    Long(i64),
    /// The bits of a 32-bit float.
    Float(u32),
    /// The bits of a 64-bit float.
    Double(u64),
    Bytes(Box<[u8]>),
    Text(Box<str>),
    Array(Vec<AvroValue>),
    /// The wanted fields of a record, each with its field id.
    Record(Vec<(i32, AvroValue)>),
}

impl AvroValue {
    /// Takes the value of the field `id` out of a record, and leaves null in its place.
    pub(crate) fn replaced(&mut self, id: i32) -> Option<AvroValue> {
        let AvroValue::Record(fields) = self else { return None };
        let (_, value) = fields.iter_mut().find(|(field, _)| *field == id)?;
        Some(std::mem::replace(value, AvroValue::Null))
    }

    /// Takes the value of the field `id` out of a record; `None` if it is null or missing.
    pub(crate) fn take(&mut self, id: i32) -> Option<AvroValue> {
        self.replaced(id).filter(|value| *value != AvroValue::Null)
    }

    /// The value as a whole number.
    pub(crate) fn number(self) -> Option<i64> {
        match self {
            AvroValue::Int(number) => Some(number.into()),
            AvroValue::Long(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn text(self) -> Option<Box<str>> {
        match self {
            AvroValue::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn items(self) -> Option<Vec<AvroValue>> {
        match self {
            AvroValue::Array(items) => Some(items),
            _ => None,
        }
    }
}

/// Selects the fields of records that are decoded; other fields are skipped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The ids of the fields to read; `None` for all fields.
    ids: Option<&'static [i32]>,
    /// The id of the field that is read together with all fields inside it.
    whole: i32,
}

impl Wanted {
    /// Selects the fields with these ids. The field `whole` is read with all fields inside it.
    pub(crate) const fn fields(ids: &'static [i32], whole: i32) -> Self {
        Wanted { ids: Some(ids), whole }
    }

    /// The selection of fields inside the field `id`; `None` if that field is not wanted.
    pub(super) fn inside(self, id: i32) -> Option<Self> {
        match self.ids {
            Some(ids) if !ids.contains(&id) => None,
            Some(_) if id == self.whole => Some(Wanted { ids: None, ..self }),
            _ => Some(self),
        }
    }
}

/// The most values that are read for each byte of input. The limit ends the reading of values that take no
/// bytes, which would otherwise go on for ever.
const STEPS: usize = 32;

/// The bytes that have not been read yet.
pub(super) struct Input<'a> {
    bytes: &'a [u8],
    /// The number of values that may still be read.
    steps: usize,
}

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Input { bytes, steps: bytes.len().saturating_add(1).saturating_mul(STEPS) }
    }

    /// Counts one value that is read; `None` if that exceeds the limit of values for the input's size.
    pub(super) fn step(&mut self) -> Option<()> {
        self.steps = self.steps.checked_sub(1)?;
        Some(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    /// Reads a 64-bit integer in Avro's variable-length zigzag encoding, which has the sign in the lowest
    /// bit.
    pub(super) fn long(&mut self) -> Option<i64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = u64::from(*self.take(1)?.first()?);
            number |= (byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some((number >> 1) as i64 ^ -((number & 1) as i64));
            }
        }
        None
    }

    pub(super) fn int(&mut self) -> Option<i32> {
        i32::try_from(self.long()?).ok()
    }

    pub(super) fn boolean(&mut self) -> Option<bool> {
        match self.take(1)? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    /// Reads a length, and that many bytes after it.
    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.long()?).ok()?;
        self.take(length)
    }

    /// Reads the number of items in the next block of an array or a map. It is 0 after the last block.
    pub(super) fn block(&mut self) -> Option<u64> {
        let count = self.long()?;
        if count < 0 {
            self.long()?;
        }
        Some(count.unsigned_abs())
    }
}
