//! Tables that look up the next bits of the scans of a progressive JPEG (ITU-T T.81, annex G).
//!
//! Most progressive files have a table of their own for each scan, so making one must be quick as well.

use std::marker::PhantomData;

use super::super::tables::{CodeTable, Codes, Definition, MAX_CODE_BITS};

/// The number of bits with which a symbol is looked up.
const INDEX: u32 = 10;
const ENTRIES: usize = 1 << INDEX;

/// An advance beyond the end of any band, which marks a code that ends blocks.
pub(super) const END: u8 = 64;
/// The most bits of an AC coefficient of 8-bit samples.
const MAX_VALUE_BITS: u8 = 10;

/// A code and what follows it.
#[derive(Clone, Copy, Default)]
#[repr(C, align(4))]
pub(super) struct CodeEntry {
    /// The value of the coefficient, or the number of blocks for a code that ends blocks.
    pub(super) value: i16,
    /// The number of coefficients that the code advances.
    pub(super) advance: u8,
    /// The number of bits of the code and its value; 0 if the bits are not a code, or if the index has fewer
    /// bits. Then `value` is the length of the code (0 if it is longer than the index), and `advance` its
    /// symbol.
    pub(super) length: u8,
}

/// How the symbols of a kind of scan are read.
pub(super) trait Symbols {
    /// The entry of a symbol whose code has `length` bits.
    fn entry(length: u8, symbol: u8, bits: u64) -> CodeEntry;
}

/// The AC table of a scan.
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
    /// The entry at the beginning of `bits`, if it is completely within the index.
    #[inline(always)]
    pub(super) fn short(&self, bits: u64) -> CodeEntry {
        self.entries[(bits >> (64 - INDEX)) as usize]
    }

    /// The entry at the beginning of `bits`, whatever its length, after the index gave `short`.
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

/// The entry of a code that ends blocks; the number of these blocks follows in `size` bits.
fn end(length: u8, size: u8, bits: u64) -> CodeEntry {
    let more = (bits << length >> 1 >> (63 - size)) as i16;
    CodeEntry { value: (1 << size) + more, advance: END, length: length + size }
}

/// The symbols of the first scan of a band.
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

/// The symbols of a scan that refines its band. The value of an entry is the sign of a new coefficient: 1, -1
/// or none.
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
