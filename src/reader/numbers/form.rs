//! How the stored values of a column become the values of its array.

use super::values::{self, Value};
use crate::column::CodeValues;

/// The kind of the stored values, and of the values that they become.
#[derive(Clone, Copy)]
pub(super) enum Form<'a> {
    /// Numbers, which stay unchanged.
    Numbers,
    /// Texts or binary values, each preceded by its length. They become the numbers that `codes` has.
    Codes { codes: &'a dyn CodeValues, are_texts: bool },
    /// Bits, which become 0 or 1.
    Booleans,
}

impl Form<'_> {
    pub(super) fn are_numbers(self) -> bool {
        matches!(self, Form::Numbers)
    }

    /// Decodes `count` values that are stored one after the other; `None` if `bytes` hold fewer or more.
    pub(super) fn plain<T: Value>(self, bytes: &[u8], count: usize, out: &mut Vec<T>) -> Option<()> {
        let (codes, are_texts) = match self {
            Form::Codes { codes, are_texts } => (codes, are_texts),
            Form::Numbers => return values::plain(bytes, count, out),
            Form::Booleans => return values::plain_bits(bytes, count, out),
        };
        let mut rest = bytes;
        let mut last: Option<(&[u8], T)> = None;
        for _ in 0..count {
            let (length, after) = rest.split_first_chunk()?;
            let (value, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            rest = after;
            let code = match last {
                Some((of, code)) if of == value => code,
                _ if are_texts => T::from_bits(codes.code_of_text(value)? as u64),
                _ => T::from_bits(codes.code(value) as u64),
            };
            last = Some((value, code));
            out.push(code);
        }
        rest.is_empty().then_some(())
    }
}
