//! What the next bits mean, looked up: two coefficients at a time to store them, as many as fit to pass over them.
//!
//! An entry says how many bits its codes and their values take together, so that finding the next code waits for one load
//! and one shift. So do the "fast AC" table of stb_image and Fabian Giesen's "Reading bits in far too many ways", with one
//! coefficient an entry. What is longer than the index is found in a second table, or by its length.

/// Bits that look up coefficients: two tables of 8 KB leave room in the first-level cache.
pub(crate) const PAIR: u32 = 10;
/// Bits that look up how far to jump: two tables of 8 KB; more bits are no quicker, and take longer to fill.
pub(crate) const JUMP: u32 = 11;
/// Bits that look up a difference of DC.
const DIFFERENCE: u32 = 9;

/// Distance to behind any block: the end-of-block code.
pub(crate) const END: u8 = 64;
/// Zeros of the code that has no value.
const ZEROS: u8 = 16;
/// More bits than this a baseline value does not have (ITU-T T.81, F.1.2.2.1).
const LARGEST_AC: u8 = 10;
const LARGEST_DC: u8 = 11;

/// A code with the value that follows it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Symbol {
    /// Bits before the value; 0: the code is longer than the index.
    pub(crate) start: u8,
    /// Bits of the value.
    pub(crate) size: u8,
    /// Coefficients that it goes forward.
    pub(crate) advance: u8,
}

impl Symbol {
    pub(crate) fn end(self) -> u8 {
        self.start + self.size
    }

    /// The value among `bits`, which the symbol begins.
    pub(crate) fn value(self, bits: u64) -> i32 {
        let from = bits << self.start;
        let magnitude = ((from >> 1) >> (63 - self.size)) as i32;
        let negative = !((from as i64) >> 63) as i32;
        magnitude - (negative & ((1 << self.size) - 1))
    }
}

/// Up to two coefficients.
#[derive(Clone, Copy, Default)]
#[repr(C, align(8))]
pub(crate) struct Pair {
    /// Values; 0 for a second that is not there.
    pub(crate) first: i16,
    pub(crate) second: i16,
    /// Coefficients that each goes forward.
    pub(crate) to_first: u8,
    pub(crate) to_second: u8,
    /// Bits of the first, and of both; 0: not even the first is all within the index.
    pub(crate) first_length: u8,
    pub(crate) length: u8,
}

/// Coefficients that are passed over together.
#[derive(Clone, Copy)]
#[repr(C, align(4))]
pub(crate) struct Jump {
    pub(crate) length: u8,
    /// Coefficients; an end of block counts as one, so that what begins in a block ends in it. [`END`]: not even one code
    /// is all within the index.
    pub(crate) advance: u8,
    /// [`END`] if an end of block is the last, or 0.
    pub(crate) end: u8,
}

/// The codes of one DHT table, by length (ITU-T T.81, annex C).
pub(crate) struct Codes {
    /// First code of each length, first index of its symbols, and how many.
    lengths: [(u32, usize, u32); 17],
    symbols: Vec<u8>,
}

impl Codes {
    /// `None` if the counts say more codes than there can be, or if there are fewer symbols.
    pub(crate) fn new(counts: &[u8; 16], symbols: &[u8]) -> Option<Codes> {
        let (mut code, mut index, mut lengths) = (0u32, 0usize, [(0, 0, 0); 17]);
        for (length, count) in (1..).zip(counts) {
            lengths[length] = (code, index, u32::from(*count));
            code += u32::from(*count);
            index += usize::from(*count);
            if code > 1 << length {
                return None;
            }
            code <<= 1;
        }
        Some(Codes { lengths, symbols: symbols.get(..index)?.to_vec() })
    }

    /// The code that begins `bits`: its length and its symbol.
    pub(crate) fn find(&self, bits: u64) -> Option<(u8, u8)> {
        (1..17u8).find_map(|length| {
            let (first, index, count) = self.lengths[usize::from(length)];
            let offset = ((bits >> (64 - length)) as u32).wrapping_sub(first);
            (offset < count).then(|| (length, self.symbols[index + offset as usize]))
        })
    }

    /// Every code of at most `most` bits, for all continuations up to that.
    fn spread(&self, most: u32) -> Vec<Option<(u8, u8)>> {
        let mut all = vec![None; 1 << most];
        for length in 1..=most {
            let (first, index, count) = self.lengths[length as usize];
            for offset in 0..count {
                let from = ((first + offset) << (most - length)) as usize;
                let symbol = self.symbols[index + offset as usize];
                all[from..from + (1 << (most - length))].fill(Some((length as u8, symbol)));
            }
        }
        all
    }
}

fn ac((length, symbol): (u8, u8)) -> Symbol {
    let (run, size) = (symbol >> 4, symbol & 15);
    let advance = match (run, size) {
        (15, 0) => ZEROS,
        (_, 0) => END,
        _ => run + 1,
    };
    Symbol { start: length, size, advance }
}

fn dc((length, size): (u8, u8)) -> Symbol {
    Symbol { start: length, size, advance: 0 }
}

pub(crate) struct DcTable {
    codes: Codes,
    short: Box<[Symbol; 1 << DIFFERENCE]>,
}

impl DcTable {
    pub(crate) fn new(codes: Codes) -> Option<DcTable> {
        if codes.symbols.iter().any(|size| *size > LARGEST_DC) {
            return None;
        }
        let short: Vec<Symbol> =
            codes.spread(DIFFERENCE).into_iter().map(|code| code.map(dc).unwrap_or_default()).collect();
        Some(DcTable { codes, short: short.try_into().ok()? })
    }

    pub(crate) fn symbol(&self, bits: u64) -> Symbol {
        let short = self.short[(bits >> (64 - DIFFERENCE)) as usize];
        if short.start == 0 { self.codes.find(bits).map(dc).unwrap_or_default() } else { short }
    }
}

pub(crate) struct AcTable {
    codes: Codes,
    symbols: Box<[Symbol; 1 << PAIR]>,
    pairs: Box<[Pair; 1 << PAIR]>,
    jumps: Box<[Jump; 1 << JUMP]>,
}

impl AcTable {
    pub(crate) fn new(codes: Codes) -> Option<AcTable> {
        if codes.symbols.iter().any(|symbol| symbol & 15 > LARGEST_AC) {
            return None;
        }
        let short = codes.spread(PAIR);
        let symbols: Vec<Symbol> = short.iter().map(|code| code.map(ac).unwrap_or_default()).collect();
        let (symbols, pairs) = (symbols.try_into().ok()?, pairs(&short).try_into().ok()?);
        let jumps = jumps(&codes.spread(JUMP)).try_into().ok()?;
        Some(AcTable { codes, symbols, pairs, jumps })
    }

    #[inline(always)]
    pub(crate) fn pair(&self, bits: u64) -> Pair {
        self.pairs[(bits >> (64 - PAIR)) as usize]
    }

    #[inline(always)]
    pub(crate) fn jump(&self, bits: u64) -> Jump {
        self.jumps[(bits >> (64 - JUMP)) as usize]
    }

    /// The symbol by itself, however long.
    #[inline(always)]
    pub(crate) fn symbol(&self, bits: u64) -> Symbol {
        let symbol = self.symbols[(bits >> (64 - PAIR)) as usize];
        if symbol.start == 0 { self.long(bits) } else { symbol }
    }

    /// Bits that are no code end the block without being read.
    #[cold]
    fn long(&self, bits: u64) -> Symbol {
        self.codes.find(bits).map(ac).unwrap_or(Symbol { start: 0, size: 0, advance: END })
    }
}

impl Symbol {
    /// As a pair without a second.
    pub(crate) fn alone(self, bits: u64) -> Pair {
        let (first, length) = (self.value(bits) as i16, self.end());
        Pair { first, to_first: self.advance, first_length: length, length, ..Pair::default() }
    }
}

fn pairs(spread: &[Option<(u8, u8)>]) -> Vec<Pair> {
    let symbol_at = |index: usize, from: u8| {
        let rest = (index << from) & ((1 << PAIR) - 1);
        spread[rest].map(ac).filter(|symbol| u32::from(from + symbol.end()) <= PAIR)
    };
    let pair = |index: usize| {
        let bits = (index as u64) << (64 - PAIR);
        let Some(first) = symbol_at(index, 0) else { return Pair::default() };
        let alone = first.alone(bits);
        match symbol_at(index, first.end()) {
            Some(second) if first.advance != END => Pair {
                second: second.value(bits << first.end()) as i16,
                to_second: second.advance,
                length: first.end() + second.end(),
                ..alone
            },
            _ => alone,
        }
    };
    (0..1 << PAIR).map(pair).collect()
}

fn jumps(spread: &[Option<(u8, u8)>]) -> Vec<Jump> {
    let jump = |index: usize| {
        let mut jump = Jump { length: 0, advance: 0, end: 0 };
        while u32::from(jump.length) < JUMP && jump.end == 0 {
            let rest = (index << jump.length) & ((1 << JUMP) - 1);
            let Some(symbol) = spread[rest].map(ac) else { break };
            if u32::from(jump.length + symbol.start) > JUMP {
                break;
            }
            let (advance, end) = if symbol.advance == END { (1, END) } else { (symbol.advance, 0) };
            if jump.advance + advance >= END {
                break;
            }
            jump = Jump { length: jump.length + symbol.end(), advance: jump.advance + advance, end };
        }
        if jump.length == 0 { Jump { advance: END, ..jump } } else { jump }
    };
    (0..1 << JUMP).map(jump).collect()
}
