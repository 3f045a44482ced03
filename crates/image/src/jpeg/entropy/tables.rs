//! Lookup tables for the Huffman codes of baseline JPEGs, which give two coefficients at a time.
//!
//! An entry has the total number of bits of its codes and values, so the next code is found with one load and
//! one shift. The "fast AC" table of stb_image, and Fabian Giesen's "Reading bits in far too many ways", do
//! the same with one coefficient per entry. A code that is too long for a table of pairs is looked up on its
//! own, or found by its length.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

/// The number of bits that tables of pairs are indexed by. Two such tables take 8 KB each, which leaves room
/// in the first-level cache.
const PAIR: u32 = 10;
/// The number of bits that tables for skipping are indexed by. Their entries have two bytes, because values
/// are not needed.
const JUMP: u32 = 11;
/// The number of blocks to skip before a table for skipping is made, since making it takes as long as
/// skipping about fifty blocks. In tests, images are small and many have codes of their own.
const UNTIL_JUMPS: u32 = if cfg!(test) { 3 } else { 500 };
/// The number of bits that tables of DC differences are indexed by.
const DIFFERENCE: u32 = 9;
/// The number of bits of the longest Huffman code.
pub(super) const MAX_CODE_BITS: u32 = 16;

/// The number of coefficients by which the end-of-block code advances: beyond the end of any block.
const END: u8 = 64;
/// The number of zeros that a code for a run of zeros without a value stands for.
const ZEROS: u8 = 16;
/// The most bits of a baseline DC value (ITU-T T.81, F.1.2.1.1).
const MAX_DC_BITS: u8 = 11;
/// The most bits of a baseline AC value (ITU-T T.81, F.1.2.2.1).
const MAX_AC_BITS: u8 = 10;

/// The definition of a Huffman table, with the fields of libjpeg-turbo's `JHUFF_TBL`.
#[repr(C)]
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Definition {
    /// The number of codes with each length in bits, from 0 to 16.
    counts: [u8; 17],
    /// The symbols in the order of their codes, followed by zeros.
    symbols: [u8; 256],
}

impl Definition {
    /// Reads the first table of a DHT segment's content after the table's number, and returns it with the
    /// remaining bytes. Returns `None` if the table is cut off or has more than 256 symbols.
    pub(super) fn read(content: &[u8]) -> Option<(Definition, &[u8])> {
        let (lengths, rest) = content.split_first_chunk::<{ MAX_CODE_BITS as usize }>()?;
        let (mut counts, mut symbols) = ([0; 17], [0; 256]);
        counts[1..].copy_from_slice(lengths);
        let used: usize = lengths.iter().map(|count| usize::from(*count)).sum();
        symbols.get_mut(..used)?.copy_from_slice(rest.get(..used)?);
        Some((Definition { counts, symbols }, &rest[used..]))
    }
}

/// A Huffman code, and the size of the value that follows it. It is padded to four bytes, so that an index
/// can be scaled in the load instruction.
#[derive(Clone, Copy, Default)]
#[repr(C, align(4))]
pub(super) struct Symbol {
    /// The number of bits of the code; 0 if the code is not in the table.
    start: u8,
    /// The number of bits of the value that follows the code.
    size: u8,
    /// The number of coefficients by which the symbol advances.
    advance: u8,
}

impl Symbol {
    fn ac(length: u8, symbol: u8) -> Symbol {
        let (run, size) = (symbol >> 4, symbol & 15);
        let advance = match (run, size) {
            (15, 0) => ZEROS,
            (_, 0) => END,
            _ => run + 1,
        };
        Symbol { start: length, size, advance }
    }

    fn dc(length: u8, size: u8) -> Symbol {
        Symbol { start: length, size, advance: 0 }
    }

    /// The number of coefficients by which the symbol advances.
    pub(super) fn forward(self) -> usize {
        self.advance.into()
    }

    /// Whether a value follows the code, so that its coefficient is not 0.
    pub(super) fn has_value(self) -> bool {
        self.size > 0
    }

    /// Whether the bits begin with no code of the table.
    pub(super) fn is_none(self) -> bool {
        self.start == 0
    }

    pub(super) fn end(self) -> u8 {
        self.start + self.size
    }

    /// The value that follows the code, if `bits` begins with the code.
    pub(super) fn value(self, bits: u64) -> i32 {
        let from = bits << self.start;
        let magnitude = ((from >> 1) >> (63 - self.size)) as i32;
        let negative = !((from as i64) >> 63) as i32;
        magnitude - (negative & ((1 << self.size) - 1))
    }

    /// A pair with this symbol's coefficient and no second one.
    pub(super) fn alone(self, bits: u64) -> Pair {
        let (first, length) = (self.value(bits) as i16, self.end());
        Pair { first, to_first: self.advance, first_length: length, length, ..Pair::default() }
    }
}

/// An entry of a table of pairs: one or two coefficients.
#[derive(Clone, Copy, Default)]
#[repr(C, align(8))]
pub(super) struct Pair {
    /// The value of the first coefficient.
    pub(super) first: i16,
    /// The value of the second coefficient; 0 if there is none.
    pub(super) second: i16,
    /// The number of coefficients by which the first and the second code advance.
    pub(super) to_first: u8,
    pub(super) to_second: u8,
    /// The number of bits of the first code and its value; 0 if they are longer than the index.
    pub(super) first_length: u8,
    pub(super) length: u8,
}

/// An entry of a table for skipping: consecutive codes that are skipped together. Their last value may extend
/// beyond the bits of the index.
#[derive(Clone, Copy)]
pub(super) struct Jump {
    /// The number of bits of all codes and their values.
    pub(super) length: u8,
    /// The number of coefficients by which all codes advance, plus [`ENDS`](Self::ENDS) if the last code ends
    /// the block.
    forward: u8,
}

impl Jump {
    const ENDS: u8 = 0x80;
    /// The entry for bits that do not begin with a code that fits into the index.
    const NONE: Jump = Jump { length: 0, forward: END };

    #[inline(always)]
    pub(super) fn forward(self) -> usize {
        usize::from(self.forward & !Self::ENDS)
    }

    #[inline(always)]
    pub(super) fn ends_block(self) -> bool {
        self.forward & Self::ENDS != 0
    }

    /// Reads the codes at the beginning of `bits`, whose first [`JUMP`] bits are known.
    fn read(symbols: &[Symbol; 1 << PAIR], bits: u64) -> Jump {
        let mut jump = Jump { length: 0, forward: 0 };
        while u32::from(jump.length) < JUMP {
            let symbol = symbols[(bits << jump.length >> (64 - PAIR)) as usize];
            let is_known = !symbol.is_none() && u32::from(jump.length + symbol.start) <= JUMP;
            if is_known && symbol.advance == END {
                return Jump { length: jump.length + symbol.end(), forward: jump.forward | Self::ENDS };
            }
            if !is_known || jump.forward + symbol.advance >= END {
                break;
            }
            jump = Jump { length: jump.length + symbol.end(), forward: jump.forward + symbol.advance };
        }
        if jump.length == 0 { Self::NONE } else { jump }
    }
}

/// A table for skipping: for each pattern of bits, the codes that it begins with.
pub(super) struct Jumps(Box<[Jump; 1 << JUMP]>);

impl Jumps {
    fn build(symbols: &[Symbol; 1 << PAIR]) -> Jumps {
        let mut jumps = Box::new([Jump::NONE; 1 << JUMP]);
        for (index, jump) in jumps.iter_mut().enumerate() {
            *jump = Jump::read(symbols, (index as u64) << (64 - JUMP));
        }
        Jumps(jumps)
    }

    #[inline(always)]
    pub(super) fn next(&self, bits: u64) -> Jump {
        self.0[(bits >> (64 - JUMP)) as usize]
    }
}

/// The Huffman codes of a definition, sorted by length (ITU-T T.81, annex C).
pub(super) struct Codes {
    /// For each length, the first code, the index of its symbol, and the number of codes.
    lengths: [(u32, usize, u32); MAX_CODE_BITS as usize + 1],
    symbols: [u8; 256],
}

impl Codes {
    /// Assigns codes to the symbols of a definition. Returns `None` if it has more codes than possible,
    /// considering that a code of all ones is not allowed.
    pub(super) fn new(definition: &Definition) -> Option<Codes> {
        let (mut code, mut index, mut lengths) = (0u32, 0usize, [(0, 0, 0); MAX_CODE_BITS as usize + 1]);
        for (length, count) in definition.counts.iter().enumerate().skip(1) {
            lengths[length] = (code, index, u32::from(*count));
            code += u32::from(*count);
            index += usize::from(*count);
            if (*count > 0 && code >= 1 << length) || index > definition.symbols.len() {
                return None;
            }
            code <<= 1;
        }
        Some(Codes { lengths, symbols: definition.symbols })
    }

    /// Finds the code at the beginning of `bits`, if it is longer than `shorter` bits. Returns its length and
    /// its symbol.
    pub(super) fn find(&self, bits: u64, shorter: u32) -> Option<(u8, u8)> {
        (shorter + 1..=MAX_CODE_BITS).find_map(|length| {
            let (first, index, count) = self.lengths[length as usize];
            let offset = ((bits >> (64 - length)) as u32).wrapping_sub(first);
            (offset < count).then(|| (length as u8, self.symbols[index + offset as usize]))
        })
    }

    /// Calls `each` for every code of at most `bits` bits, with the smallest index of `bits` bits that begins
    /// with the code, the length of the code, and its symbol.
    pub(super) fn each(&self, bits: u32, mut each: impl FnMut(usize, u8, u8)) {
        for length in 1..=bits {
            let (first, index, count) = self.lengths[length as usize];
            for offset in 0..count {
                let from = ((first + offset) << (bits - length)) as usize;
                each(from, length as u8, self.symbols[index + offset as usize]);
            }
        }
    }

    /// Makes a table of `N` entries: for each pattern of bits the symbol whose code it begins with, if the
    /// code is no longer than the pattern.
    fn spread<const N: usize>(&self, symbol: fn(u8, u8) -> Symbol) -> Box<[Symbol; N]> {
        let bits = N.trailing_zeros();
        let mut all = Box::new([Symbol::default(); N]);
        self.each(bits, |from, length, code| {
            all[from..from + (1 << (bits - u32::from(length)))].fill(symbol(length, code));
        });
        all
    }
}

/// A lookup table that is made from the definition of a Huffman table.
pub(super) trait CodeTable: Sized {
    /// Makes the lookup table; `None` if the definition is not valid in a baseline JPEG.
    fn new(definition: &Definition) -> Option<Self>;
}

pub(super) struct DcTable {
    codes: Codes,
    short: Box<[Symbol; 1 << DIFFERENCE]>,
}

impl CodeTable for DcTable {
    fn new(definition: &Definition) -> Option<DcTable> {
        if definition.symbols.iter().any(|size| *size > MAX_DC_BITS) {
            return None;
        }
        let codes = Codes::new(definition)?;
        Some(DcTable { short: codes.spread(Symbol::dc), codes })
    }
}

impl DcTable {
    #[inline(always)]
    pub(super) fn symbol(&self, bits: u64) -> Symbol {
        let short = self.short[(bits >> (64 - DIFFERENCE)) as usize];
        if short.is_none() { self.long(bits) } else { short }
    }

    #[cold]
    fn long(&self, bits: u64) -> Symbol {
        self.codes.find(bits, DIFFERENCE).map(|(length, size)| Symbol::dc(length, size)).unwrap_or_default()
    }
}

pub(super) struct AcTable {
    codes: Codes,
    symbols: Box<[Symbol; 1 << PAIR]>,
    pairs: Box<[Pair; 1 << PAIR]>,
    jumps: OnceCell<Jumps>,
    /// The number of blocks that were skipped before the table for skipping was made.
    passed: Cell<u32>,
}

impl CodeTable for AcTable {
    fn new(definition: &Definition) -> Option<AcTable> {
        if definition.symbols.iter().any(|symbol| symbol & 15 > MAX_AC_BITS) {
            return None;
        }
        let codes = Codes::new(definition)?;
        let symbols = codes.spread(Symbol::ac);
        let (jumps, passed) = Default::default();
        Some(AcTable { codes, pairs: pairs(&symbols), symbols, jumps, passed })
    }
}

impl AcTable {
    #[inline(always)]
    pub(super) fn pair(&self, bits: u64) -> Pair {
        self.pairs[(bits >> (64 - PAIR)) as usize]
    }

    /// The table for skipping blocks, which is made once many blocks have been skipped.
    #[inline(always)]
    pub(super) fn jumps(&self) -> Option<&Jumps> {
        match self.jumps.get() {
            None => self.made_jumps(),
            jumps => jumps,
        }
    }

    #[cold]
    fn made_jumps(&self) -> Option<&Jumps> {
        self.passed.set(self.passed.get() + 1);
        (self.passed.get() > UNTIL_JUMPS).then(|| self.jumps.get_or_init(|| Jumps::build(&self.symbols)))
    }

    /// Finds the symbol at the beginning of `bits`, also if its code is long. Bits that begin with no code
    /// give a symbol that ends the block and has no bits.
    #[inline(always)]
    pub(super) fn symbol(&self, bits: u64) -> Symbol {
        let symbol = self.symbols[(bits >> (64 - PAIR)) as usize];
        if symbol.is_none() { self.long(bits) } else { symbol }
    }

    #[cold]
    fn long(&self, bits: u64) -> Symbol {
        let none = Symbol { advance: END, ..Symbol::default() };
        self.codes.find(bits, PAIR).map(|(length, symbol)| Symbol::ac(length, symbol)).unwrap_or(none)
    }
}

fn pairs(symbols: &[Symbol; 1 << PAIR]) -> Box<[Pair; 1 << PAIR]> {
    let mut pairs = Box::new([Pair::default(); 1 << PAIR]);
    for (index, (pair, first)) in pairs.iter_mut().zip(symbols).enumerate() {
        if first.is_none() || u32::from(first.end()) > PAIR {
            continue;
        }
        let bits = (index as u64) << (64 - PAIR);
        *pair = first.alone(bits);
        let second = symbols[(index << first.end()) & ((1 << PAIR) - 1)];
        let length = first.end() + second.end();
        if first.advance != END && !second.is_none() && u32::from(length) <= PAIR {
            pair.second = second.value(bits << first.end()) as i16;
            pair.to_second = second.advance;
            pair.length = length;
        }
    }
    pairs
}

/// The lookup tables that were used last. They are kept because most files have the same Huffman tables, the
/// defaults of libjpeg's encoder.
pub(super) struct Known<T>(Vec<(Definition, Rc<T>)>);

/// The number of lookup tables of each kind that are kept, which is more than an image has.
const KEPT: usize = 8;

impl<T> Default for Known<T> {
    fn default() -> Self {
        Known(Vec::with_capacity(KEPT))
    }
}

impl<T: CodeTable> Known<T> {
    /// Returns the lookup table for a definition, and makes it if it is not kept; `None` if the definition is
    /// not valid in a baseline JPEG.
    pub(super) fn table(&mut self, definition: &Definition) -> Option<Rc<T>> {
        match self.0.iter().position(|(known, _)| known == definition) {
            Some(at) => self.0[..=at].rotate_right(1),
            None => {
                let table = Rc::new(T::new(definition)?);
                self.0.truncate(KEPT - 1);
                self.0.insert(0, (definition.clone(), table));
            }
        }
        self.0.first().map(|(_, table)| Rc::clone(table))
    }
}
