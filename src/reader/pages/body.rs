//! What is in a page, once it is decompressed: whether its levels and lengths are as many as its values, and make sense.

use bytes::Bytes;
use parquet::basic::{Encoding, Repetition, Type};
use parquet::column::page::Page;
use parquet::schema::types::ColumnDescriptor;

use super::levels::{self, Lists, split_levels};
use super::{corrupt, lengths};
use crate::error::Result;
use crate::reader::integers::Runs;

/// Checks the pages of a leaf column, one after the other.
pub(in crate::reader) struct Bodies {
    /// The highest repetition and definition level.
    highest: [i16; 2],
    /// Bytes of a value as it is stored, if all have as many.
    width: Option<usize>,
    lists: Option<Lists>,
}

/// The parts of a page: its levels, as far as they are runs, and its values.
struct Parts<'a> {
    repetition: Option<&'a [u8]>,
    definition: Option<&'a [u8]>,
    values: &'a [u8],
}

impl Bodies {
    /// Of a leaf at the end of `path`, whose nodes are optional, repeated or neither.
    pub(in crate::reader) fn of(column: &ColumnDescriptor, path: impl Iterator<Item = Repetition>) -> Self {
        let highest = [column.max_rep_level(), column.max_def_level()];
        let width = match column.physical_type() {
            Type::INT32 | Type::FLOAT => Some(4),
            Type::INT64 | Type::DOUBLE => Some(8),
            Type::FIXED_LEN_BYTE_ARRAY => usize::try_from(column.type_length()).ok(),
            Type::BOOLEAN | Type::INT96 | Type::BYTE_ARRAY => None,
        };
        Bodies { highest, width, lists: (highest[0] > 0).then(|| Lists::of(highest, path)) }
    }

    /// Is told that a page was left out.
    pub(in crate::reader) fn skip(&mut self) {
        if let Some(lists) = &mut self.lists {
            lists.skip();
        }
    }

    /// Fails with `Corrupt` if the page has fewer levels than values, levels that make no sense, or other lengths than values.
    pub(in crate::reader) fn check(&mut self, page: &Page) -> Result<()> {
        let (values, parts) = match page {
            Page::DataPage { buf, num_values, rep_level_encoding, def_level_encoding, .. } => {
                let encodings = [*rep_level_encoding, *def_level_encoding];
                (*num_values, self.parts(buf, *num_values, encodings))
            }
            Page::DataPageV2 { buf, num_values, def_levels_byte_len, rep_levels_byte_len, .. } => {
                let parts = || {
                    let (repetition, rest) = buf.split_at_checked(*rep_levels_byte_len as usize)?;
                    let (definition, values) = rest.split_at_checked(*def_levels_byte_len as usize)?;
                    Some(Parts { repetition: Some(repetition), definition: Some(definition), values })
                };
                (*num_values, parts())
            }
            Page::DictionaryPage { .. } => return Ok(()),
        };
        let parts = parts
            .ok_or_else(|| corrupt(format!("the levels of the {values} values of a page are malformed")))?;
        for (runs, highest) in [parts.repetition, parts.definition].into_iter().zip(self.highest) {
            if let Some(runs) = runs.filter(|_| highest > 0) {
                levels::check(runs, highest, values as usize)?;
            }
        }
        match (&mut self.lists, parts.repetition, parts.definition) {
            (Some(lists), Some(repetition), Some(definition)) => {
                lists.check(repetition, definition, values as usize)?
            }
            (Some(lists), ..) => lists.skip(),
            (None, ..) => {}
        }
        let are_sound = match page.encoding() {
            Encoding::BYTE_STREAM_SPLIT => {
                let stored = self.stored(&parts, values as usize);
                self.width.is_some_and(|width| are_split(parts.values, stored, width))
            }
            Encoding::RLE | Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                let stored = self.stored(&parts, values as usize);
                stored.is_none_or(|stored| are_in_runs(page.encoding(), parts.values, stored))
            }
            encoding => lengths::are_sound(encoding, parts.values, values),
        };
        match are_sound {
            true => Ok(()),
            false => {
                let encoding = page.encoding();
                Err(corrupt(format!("the {values} values of a page are malformed ({encoding})")))
            }
        }
    }

    /// How many of a page's values are not null; `None` if its levels are bit-packed, which are not counted.
    fn stored(&self, parts: &Parts<'_>, values: usize) -> Option<usize> {
        match (self.highest[1], parts.definition) {
            (0, _) => Some(values),
            (highest, runs) => levels::highest_of(runs?, highest, values),
        }
    }

    /// The parts of a page of version 1; `None` if its levels do not end in it.
    fn parts<'a>(&self, page: &'a Bytes, values: u32, encodings: [Encoding; 2]) -> Option<Parts<'a>> {
        let mut rest = &page[..];
        let mut runs = [None; 2];
        for ((most, encoding), runs) in self.highest.into_iter().zip(encodings).zip(&mut runs) {
            if most == 0 {
                continue;
            }
            if encoding == Encoding::RLE {
                let (found, after) = split_levels(rest)?;
                (*runs, rest) = (Some(found), after);
            } else {
                // Bit-packed, which is deprecated: as many as the values, or the decoder fails.
                let bits = u64::from(values) * u64::from(i16::BITS - most.leading_zeros());
                rest = rest.get(usize::try_from(bits.div_ceil(8)).ok()?..)?;
            }
        }
        let [repetition, definition] = runs;
        Some(Parts { repetition, definition, values: rest })
    }
}

/// Whether values that are split into their bytes are all there. The decoder makes up what is missing.
fn are_split(bytes: &[u8], stored: Option<usize>, width: usize) -> bool {
    match stored {
        Some(stored) => stored.checked_mul(width) == Some(bytes.len()),
        None => bytes.len().is_multiple_of(width),
    }
}

/// Whether there are as many booleans or indices into a dictionary as values. The decoder makes up those of no bits, and takes
/// the bytes that are there for as many groups as a run claims.
fn are_in_runs(encoding: Encoding, bytes: &[u8], stored: usize) -> bool {
    let runs = match encoding {
        Encoding::RLE => split_levels(bytes).and_then(|(runs, _)| Runs::new(runs, 1)),
        _ => bytes.split_first().and_then(|(width, runs)| Runs::new(runs, (*width).into())),
    };
    stored == 0 || runs.is_some_and(|runs| runs.each(stored, |_| Some(())).is_some())
}
