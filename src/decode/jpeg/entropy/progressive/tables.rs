//! Tables that look up the next bits of the scans of a progressive JPEG (ITU-T T.81, annex G).

use super::super::tables::{CodeTable, Codes, Definition, LONGEST};

/// Bits that look up a symbol.
const INDEX: u32 = 10;
const ENTRIES: usize = 1 << INDEX;

/// A distance beyond the end of any band: a code that ends blocks.
pub(super) const END: u8 = 64;
/// The most bits of a value of 8-bit samples.
const LARGEST: u8 = 10;

/// A code and what follows it.
#[derive(Clone, Copy, Default)]
#[repr(C, align(4))]
pub(super) struct Entry {
    /// The coefficient; where blocks end, how many.
    pub(super) value: i16,
    /// Coefficients that it goes forward.
    pub(super) advance: u8,
    /// Its bits; 0: they are not a code.
    pub(super) length: u8,
}

/// How a symbol becomes an entry: with its length, and with all bits from it on.
type Read = fn(u8, u8, u64) -> Entry;

/// The codes of a table by their first bits.
struct Index {
    codes: Codes,
    entries: Box<[Entry; ENTRIES]>,
    read: Read,
}

impl Index {
    fn new(definition: &Definition, read: Read) -> Option<Index> {
        let codes = Codes::new(definition)?;
        let mut entries = Box::new([Entry::default(); ENTRIES]);
        codes.each(INDEX, |from, length, symbol| {
            let all = &mut entries[from..from + (1 << (INDEX - u32::from(length)))];
            for (entry, index) in all.iter_mut().zip(from..) {
                let read = read(length, symbol, (index as u64) << (64 - INDEX));
                if u32::from(read.length) <= INDEX {
                    *entry = read;
                }
            }
        });
        Some(Index { codes, entries, read })
    }

    #[inline(always)]
    fn short(&self, bits: u64) -> Entry {
        self.entries[(bits >> (64 - INDEX)) as usize]
    }

    #[cold]
    fn long(&self, bits: u64) -> Entry {
        const { assert!(LONGEST + 15 <= 56, "a code and its value are there after a refill") };
        let found = self.codes.find(bits, 0);
        found.map_or(Entry::default(), |(length, symbol)| (self.read)(length, symbol, bits))
    }
}

/// Blocks that a code ends, whose number has `size` more bits.
fn end(length: u8, size: u8, bits: u64) -> Entry {
    let more = (bits << length >> 1 >> (63 - size)) as i16;
    Entry { value: (1 << size) + more, advance: END, length: length + size }
}

/// The AC table of a scan that is the first of its band.
pub(super) struct FirstTable(Index);

impl CodeTable for FirstTable {
    fn new(definition: &Definition) -> Option<FirstTable> {
        Index::new(definition, |length, symbol, bits| match (symbol >> 4, symbol & 15) {
            (15, 0) => Entry { value: 0, advance: 16, length },
            (size, 0) => end(length, size, bits),
            (_, size) if size > LARGEST => Entry::default(),
            (run, size) => {
                let from = bits << length;
                let magnitude = (from >> (64 - size)) as i16;
                let least = if from >> 63 == 0 { 1 - (1 << size) } else { 0 };
                Entry { value: magnitude + least, advance: run + 1, length: length + size }
            }
        })
        .map(FirstTable)
    }
}

impl FirstTable {
    /// The entry that begins `bits`, if it is all within the index.
    #[inline(always)]
    pub(super) fn short(&self, bits: u64) -> Entry {
        self.0.short(bits)
    }

    /// The same for an entry of any length.
    pub(super) fn long(&self, bits: u64) -> Entry {
        self.0.long(bits)
    }
}

/// The AC table of a scan that refines its band. The value of an entry is the sign of a new coefficient: 1, -1 or none.
pub(super) struct RefineTable(Index);

impl CodeTable for RefineTable {
    fn new(definition: &Definition) -> Option<RefineTable> {
        Index::new(definition, |length, symbol, bits| match (symbol >> 4, symbol & 15) {
            (15, 0) => Entry { value: 0, advance: 16, length },
            (size, 0) => end(length, size, bits),
            (run, 1) => {
                let sign = if bits << length >> 63 == 0 { -1 } else { 1 };
                Entry { value: sign, advance: run + 1, length: length + 1 }
            }
            _ => Entry::default(),
        })
        .map(RefineTable)
    }
}

impl RefineTable {
    /// The entry that begins `bits`, if it is all within the index.
    #[inline(always)]
    pub(super) fn short(&self, bits: u64) -> Entry {
        self.0.short(bits)
    }

    /// The same for an entry of any length.
    pub(super) fn long(&self, bits: u64) -> Entry {
        self.0.long(bits)
    }
}
