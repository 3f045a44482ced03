//! Lookup tables for the Huffman codes of progressive JPEGs (ITU-T T.81, annex G).
//!
//! Most progressive files define new codes for each scan, so tables must not only be fast to use but also
//! fast to make.

use std::marker::PhantomData;

use super::super::tables::{CodeTable, Codes, Definition, MAX_CODE_BITS};

/// The number of bits that the table is indexed by.
const INDEX: u32 = 10;
const ENTRIES: usize = 1 << INDEX;

/// The value of `advance` that marks an end-of-band code. It is beyond the last coefficient of any band.
pub(super) const END: u8 = 64;
/// The most bits of an AC coefficient of 8-bit samples.
const MAX_VALUE_BITS: u8 = 10;

/// A Huffman code with the value that follows it.
#[derive(Clone, Copy, Default)]
#[repr(C, align(4))]
pub(super) struct CodeEntry {
    /// The value of the coefficient; for an end-of-band code, the number of blocks that it ends.
    pub(super) value: i16,
    /// The number of coefficients by which the code advances.
    pub(super) advance: u8,
    /// The number of bits of the code and its value. It is 0 if they are longer than the index of the table.
    /// Then `value` is the length of the code and `advance` is its symbol, but both are 0 if the code alone
    /// is longer than the index, or if the bits do not begin with a code.
    pub(super) length: u8,
}

/// The meaning of symbols in a kind of scan: the first scan of a band, or a refining scan.
pub(super) trait Symbols {
    /// The entry for a symbol whose code has `length` bits. `bits` begins with the code.
    fn entry(length: u8, symbol: u8, bits: u64) -> CodeEntry;
}

/// The lookup table for the AC codes of a scan.
pub(super) struct AcTable<S> {
    codes: Codes,
    entries: Box<[CodeEntry; ENTRIES]>,
    symbols: PhantomData<S>,
}

impl<S: Symbols> CodeTable for AcTable<S> {
    fn new(definition: &Definition) -> Option<Self> {
        let codes = Codes::new(definition)?;
        let mut entries = Box::new([CodeEntry::default(); ENTRIES]);
        codes.each(INDEX, |from, length, symbol| {
            let all = &mut entries[from..from + (1 << (INDEX - u32::from(length)))];
            for (entry, index) in all.iter_mut().zip(from..) {
                let whole = S::entry(length, symbol, (index as u64) << (64 - INDEX));
                *entry = match u32::from(whole.length) <= INDEX {
                    true => whole,
                    false => CodeEntry { value: length.into(), advance: symbol, length: 0 },
                };
            }
        });
        Some(AcTable { codes, entries, symbols: PhantomData })
    }
}

impl<S: Symbols> AcTable<S> {
    /// Looks up the code at the beginning of `bits`. It is found if the code and its value are no longer than
    /// the index.
    #[inline(always)]
    pub(super) fn short(&self, bits: u64) -> CodeEntry {
        self.entries[(bits >> (64 - INDEX)) as usize]
    }

    /// Finds the code at the beginning of `bits`, which [`short`](Self::short) did not find. `short` is the
    /// entry that it returned.
    #[cold]
    pub(super) fn long(&self, bits: u64, short: CodeEntry) -> CodeEntry {
        const { assert!(MAX_CODE_BITS + 15 <= 56, "a code and its value are there after a refill") };
        match short.value {
            0 => {
                let found = self.codes.find(bits, INDEX);
                found.map_or(CodeEntry::default(), |(length, symbol)| S::entry(length, symbol, bits))
            }
            length => S::entry(length as u8, short.advance, bits),
        }
    }
}

/// The entry of an end-of-band code. The number of blocks that it ends follows in `size` bits.
fn end(length: u8, size: u8, bits: u64) -> CodeEntry {
    let more = (bits << length >> 1 >> (63 - size)) as i16;
    CodeEntry { value: (1 << size) + more, advance: END, length: length + size }
}

/// The symbols in the first scan of a band.
pub(super) struct First;

impl Symbols for First {
    #[inline(always)]
    fn entry(length: u8, symbol: u8, bits: u64) -> CodeEntry {
        match (symbol >> 4, symbol & 15) {
            (15, 0) => CodeEntry { value: 0, advance: 16, length },
            (size, 0) => end(length, size, bits),
            (_, size) if size > MAX_VALUE_BITS => CodeEntry::default(),
            (run, size) => {
                let from = bits << length;
                let magnitude = (from >> (64 - size)) as i16;
                let least = if from >> 63 == 0 { 1 - (1 << size) } else { 0 };
                CodeEntry { value: magnitude + least, advance: run + 1, length: length + size }
            }
        }
    }
}

/// The symbols in a scan that refines a band. The value of an entry is that of a new coefficient: 1, -1, or 0
/// for none.
pub(super) struct Refine;

impl Symbols for Refine {
    #[inline(always)]
    fn entry(length: u8, symbol: u8, bits: u64) -> CodeEntry {
        match (symbol >> 4, symbol & 15) {
            (15, 0) => CodeEntry { value: 0, advance: 16, length },
            (size, 0) => end(length, size, bits),
            (run, 1) => {
                let sign = if bits << length >> 63 == 0 { -1 } else { 1 };
                CodeEntry { value: sign, advance: run + 1, length: length + 1 }
            }
            _ => CodeEntry::default(),
        }
    }
}
