//! Reads the header of a page in a column chunk, or refuses it. A header that is accepted means the same to
//! the Parquet crate, which decodes the page.

use forebay_base::{Error, ErrorKind, Result};

use super::thrift::Compact;
use super::thrift::declared::{DATA_PAGE_HEADER, DATA_PAGE_HEADER_V2, DICTIONARY_PAGE_HEADER, PAGE_HEADER};

/// The kind of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Values with their levels, compressed together.
    Data,
    /// The distinct values to which the data pages of the chunk refer by number.
    Dictionary,
    /// Levels that are not compressed, followed by values that may be compressed.
    DataV2,
}

/// The content of a page header. Sizes have at most 31 bits in the format, so `u32` is enough and keeps this
/// structure small.
#[derive(Debug, PartialEq, Eq)]
pub struct Page {
    /// The kind of the page's content.
    pub kind: PageKind,
    /// The size of the page's content in bytes, before compression.
    pub uncompressed: u32,
    /// The size of the page's content in bytes, as it is stored.
    pub compressed: u32,
    /// The number of values, nulls included.
    pub values: u32,
    /// The encoding of the page's values, as its number in the Parquet format.
    pub encoding: i32,
    /// The CRC-32 of the stored page, if the writer stored one.
    pub crc: Option<u32>,
    /// The encodings of repetition levels and of definition levels, in this order; only data pages of version
    /// 1 have them.
    pub level_encodings: [i32; 2],
    /// The number of bytes of all levels, which are not compressed and precede the values, in a data page of
    /// version 2; else 0.
    pub levels: u32,
    /// The number of bytes of `levels` that are repetition levels, which come before the definition levels.
    pub repetition: u32,
    /// The offset in the header of the boolean field `is_compressed`, if the header sets it to false. Only
    /// data pages of version 2 have this field.
    pub not_compressed: Option<u32>,
}

/// Changes the header byte of a boolean field from false to true. The field has no other bytes, because true
/// and false are two types, and the lower half of the header byte is the type.
pub fn compressed(flag: u8) -> u8 {
    (flag & 0xf0) | TRUE
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const STRUCT: u8 = 12;

/// The values of the header's fields, as far as they are used.
#[derive(Default)]
struct Fields {
    kind: Option<i32>,
    uncompressed: Option<u32>,
    compressed: Option<u32>,
    /// The id of the field whose value is a header for one kind of page only: data, index, dictionary, or
    /// data of version 2.
    of_kind: Option<i16>,
    values: Option<u32>,
    encoding: Option<i32>,
    crc: Option<u32>,
    /// The encodings of repetition levels and of definition levels, in this order.
    level_encodings: [i32; 2],
    nulls: Option<u32>,
    rows: Option<u32>,
    definition_levels: Option<u32>,
    repetition_levels: Option<u32>,
    not_compressed: Option<u32>,
}

/// Reads a page header. Returns the header and its length in bytes.
#[inline]
pub fn read(bytes: &[u8]) -> Result<(Page, usize)> {
    let mut input = Compact::new(bytes);
    match usual(&mut input) {
        Some(page) => Ok((page, bytes.len() - input.remaining())),
        None => unusual(bytes),
    }
}

fn unusual(bytes: &[u8]) -> Result<(Page, usize)> {
    const INDEX_PAGE: i32 = 1;
    let mut input = Compact::new(bytes);
    let mut fields = Fields::default();
    if fields.read(&mut input, bytes).is_some() {
        if fields.kind == Some(INDEX_PAGE) {
            return Err(corrupt("a page among the pages of values claims to hold an index"));
        }
        if let Some(page) = fields.page() {
            return Ok((page, bytes.len() - input.remaining()));
        }
    }
    Err(corrupt("a page header is malformed"))
}

/// Reads the header of a dictionary page or of a data page of version 1 quickly, if it has the usual form:
/// all fields in order, none unknown. Returns `None` for any other form, even if the header is valid. The
/// speed matters for small row groups, which have a header for every few values.
#[inline(always)]
fn usual(input: &mut Compact<'_>) -> Option<Page> {
    /// The header byte of a 32-bit integer whose field id is one more than that of the field before.
    const I32: u8 = 0x15;
    const FALSE_OR_TRUE: [u8; 2] = [0x12, 0x11];
    const STATISTICS: [u8; 1] = [0x10 | STRUCT];
    let size = |input: &mut Compact<'_>| u32::try_from(input.i32_after(I32)?).ok();
    let kind = input.i32_after(I32)?;
    let (uncompressed, compressed) = (size(input)?, size(input)?);
    let crc = input.i32_after(I32).map(i32::cast_unsigned);
    let after = if crc.is_some() { 4 } else { 3 };
    let (kind, id) = match kind {
        0 => (PageKind::Data, 5),
        2 => (PageKind::Dictionary, 7),
        _ => return None,
    };
    input.next_of([(id - after) << 4 | STRUCT])?;
    let values = size(input)?;
    let encoding = input.i32_after(I32)?;
    let mut level_encodings = [0; 2];
    if kind == PageKind::Data {
        level_encodings[1] = input.i32_after(I32)?;
        level_encodings[0] = input.i32_after(I32)?;
        if input.next_of(STATISTICS).is_some() {
            input.statistics(STRUCT)?;
        }
    } else {
        input.next_of(FALSE_OR_TRUE);
    }
    // The first zero ends the header for the page's kind, the second one the whole page header.
    input.next_of([0])?;
    input.next_of([0])?;
    Some(Page {
        kind,
        uncompressed,
        compressed,
        values,
        encoding,
        crc,
        level_encodings,
        levels: 0,
        repetition: 0,
        not_compressed: None,
    })
}

impl Fields {
    fn read(&mut self, input: &mut Compact<'_>, bytes: &[u8]) -> Option<()> {
        input.structure(|input, id, kind| {
            match id {
                1 => self.kind = Some(input.i32(kind)?),
                2 => self.uncompressed = Some(size(input, kind)?),
                3 => self.compressed = Some(size(input, kind)?),
                4 => self.crc = Some(input.i32(kind)?.cast_unsigned()),
                5..=8 => {
                    // A second header for a kind of page is refused, because the Parquet crate would mix the
                    // two.
                    let is_first = self.of_kind.replace(id).is_none();
                    (is_first && kind == STRUCT).then_some(())?;
                    match id {
                        5 => self.read_v1(input)?,
                        7 => self.read_dictionary(input)?,
                        8 => self.read_v2(input, bytes)?,
                        _ => input.skip(kind)?,
                    }
                }
                _ => input.field(PAGE_HEADER, id, kind)?,
            }
            Some(())
        })
    }

    fn read_v1(&mut self, input: &mut Compact<'_>) -> Option<()> {
        input.structure(|input, id, kind| {
            match id {
                1 => self.values = Some(size(input, kind)?),
                2 => self.encoding = Some(input.i32(kind)?),
                3 => self.level_encodings[1] = input.i32(kind)?,
                4 => self.level_encodings[0] = input.i32(kind)?,
                5 => input.statistics(kind)?,
                _ => input.field(DATA_PAGE_HEADER, id, kind)?,
            }
            Some(())
        })
    }

    fn read_dictionary(&mut self, input: &mut Compact<'_>) -> Option<()> {
        input.structure(|input, id, kind| {
            match id {
                1 => self.values = Some(size(input, kind)?),
                2 => self.encoding = Some(input.i32(kind)?),
                _ => input.field(DICTIONARY_PAGE_HEADER, id, kind)?,
            }
            Some(())
        })
    }

    fn read_v2(&mut self, input: &mut Compact<'_>, bytes: &[u8]) -> Option<()> {
        input.structure(|input, id, kind| {
            match id {
                1 => self.values = Some(size(input, kind)?),
                2 => self.nulls = Some(size(input, kind)?),
                3 => self.rows = Some(size(input, kind)?),
                4 => self.encoding = Some(input.i32(kind)?),
                5 => self.definition_levels = Some(size(input, kind)?),
                6 => self.repetition_levels = Some(size(input, kind)?),
                7 => {
                    let at = bytes.len() - input.remaining() - 1;
                    self.not_compressed = match Compact::bool(kind)? {
                        true => None,
                        // This byte contains the type. If the field's id were written out, the byte would be
                        // the end of the id and not the type, but no writer does that.
                        false => Some((bytes[at] & 0x0f == FALSE).then(|| u32::try_from(at).ok())??),
                    };
                }
                8 => input.statistics(kind)?,
                _ => input.field(DATA_PAGE_HEADER_V2, id, kind)?,
            }
            Some(())
        })
    }

    /// The page; `None` if the header lacks a field that the format requires, or a field that its kind of
    /// page requires.
    fn page(&self) -> Option<Page> {
        let kind = match (self.kind?, self.of_kind?) {
            (0, 5) => PageKind::Data,
            (2, 7) => PageKind::Dictionary,
            (3, 8) => PageKind::DataV2,
            _ => return None,
        };
        let of_v2 = |field: Option<u32>| if kind == PageKind::DataV2 { field } else { Some(0) };
        // Pages of version 2 must have these two fields, although their values are not used.
        of_v2(self.rows.and(self.nulls))?;
        let repetition = of_v2(self.repetition_levels)?;
        Some(Page {
            kind,
            uncompressed: self.uncompressed?,
            compressed: self.compressed?,
            values: self.values?,
            encoding: self.encoding?,
            crc: self.crc,
            level_encodings: self.level_encodings,
            levels: of_v2(self.definition_levels)? + repetition,
            repetition,
            not_compressed: self.not_compressed,
        })
    }
}

fn corrupt(cause: &str) -> Error {
    Error::new(ErrorKind::Corrupt, cause)
}

/// Reads a number that is not negative.
fn size(input: &mut Compact<'_>, kind: u8) -> Option<u32> {
    u32::try_from(input.i32(kind)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a header field by field, without the quick way.
    fn slowly(bytes: &[u8]) -> Option<(Page, usize)> {
        let (mut input, mut fields) = (Compact::new(bytes), Fields::default());
        fields.read(&mut input, bytes)?;
        Some((fields.page()?, bytes.len() - input.remaining()))
    }

    /// Headers from pyarrow, and copies of them with one byte changed, give the same result in the quick way
    /// as field by field.
    #[test]
    fn a_usual_header_means_what_its_fields_mean() {
        let dictionary = [0x15, 4, 0x15, 0xf8, 5, 0x15, 0xfe, 5, 0x4c, 0x15, 0xbe, 1, 0x15, 0, 0x12, 0, 0];
        let statistics = [
            0x1c, 0x18, 4, 0, 0x80, 0x84, 0x43, 0x18, 4, 0, 0, 0, 0x80, 0x16, 0x8a, 7, 0x28, 4, 0, 0x80,
            0x84, 0x43, 0x18, 4, 0, 0, 0, 0x80, 0x11, 0x11, 0,
        ];
        let data = [0x15, 0, 0x15, 0x16, 0x15, 0x1a, 0x2c, 0x15, 0x14, 0x15, 0x10, 0x15, 6, 0x15, 6];
        let summed =
            [0x15, 0, 0x15, 0x16, 0x15, 0x1a, 0x15, 7, 0x1c, 0x15, 0x14, 0x15, 0x10, 0x15, 6, 0x15, 6];
        let headers = [
            dictionary.to_vec(),
            [&data[..], &statistics, &[0, 0]].concat(),
            [&data[..], &[0, 0]].concat(),
            [&summed[..], &statistics, &[0, 0]].concat(),
        ];
        for header in headers {
            let header = [&header[..], &[9; 4]].concat();
            let usual = usual(&mut Compact::new(&header));
            assert_eq!(usual, slowly(&header).map(|(page, _)| page));
            assert!(usual.is_some());
            for at in 0..header.len() {
                for byte in 0..=u8::MAX {
                    let mut changed = header.clone();
                    changed[at] = byte;
                    assert_eq!(read(&changed).ok(), slowly(&changed), "{byte:#x} at {at}");
                }
                assert_eq!(read(&header[..at]).ok(), slowly(&header[..at]), "the first {at} bytes");
            }
        }
    }
}
