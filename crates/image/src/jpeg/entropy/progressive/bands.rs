//! Decodes the AC coefficients of one block in a scan of a progressive JPEG (ITU-T T.81, G.1.2.2 and
//! G.1.2.3).
//!
//! Each block has a mask of its coefficients that are not zero. A refining scan corrects these coefficients
//! and counts the zeros between them. With the mask, it finds both without reading the block, and reads all
//! correction bits up to the next code at once. A code can only be found after the code before it, so the
//! loop only finds codes; the coefficients are changed together at the end of the block.

use super::super::bits::Reader;
use super::super::block::Block;
use super::super::sequential::NATURAL;
use super::tables::{AcTable, END, First, Refine};

/// The number of codes that are read between refills. A refill gives 56 bits, which is enough for four codes
/// of 10 bits, and also for one code of 26 bits, which is not in the table, and three of 10 bits.
const CODES: usize = 4;
/// The number of bits that a refill makes available.
const AT_ONCE: u32 = 56;
/// The number of bits that are still available after the longest code with the bits that belong to it.
const AFTER_CODE: u32 = AT_ONCE - 31;

/// The range of coefficients that a scan codes, and their lowest coded bit.
#[derive(Clone, Copy)]
pub(super) struct Band {
    /// The first and the last coefficient, in zigzag order.
    pub(super) first: u32,
    pub(super) last: u32,
    /// The number of the lowest bit that the scan codes.
    pub(super) low: u8,
}

impl Band {
    /// The mask of the band's coefficients from number `from` to the last.
    fn from(self, from: u32) -> u64 {
        (u64::MAX >> from) & (u64::MAX << (63 - self.last))
    }
}

/// The bit of a coefficient in the mask of a block. The first coefficient in zigzag order has the highest
/// bit.
fn bit(at: u32) -> u64 {
    1 << 63 >> at
}

/// Operations on the mask of a block, with plain code or with instructions of some processors.
pub(super) trait Masks {
    /// Puts the lowest bits of `bits`, in order, at the positions where `mask` has ones, like the instruction
    /// PDEP.
    fn deposit(bits: u64, mask: u64) -> u64;

    /// Moves the coefficients in the mask `which` away from zero by `step`. Coefficients that are zero become
    /// `step`, or `-step` if they are in the mask `negative`.
    fn raise(block: &mut Block, which: u64, negative: u64, step: i16);
}

/// Reads the coefficients of a block in the first scan of its band. Returns how many of the following blocks
/// have no coefficients in this scan.
#[inline(always)]
pub(super) fn first(
    bits: &mut Reader<'_>,
    table: &AcTable<First>,
    band: Band,
    block: &mut Block,
    nonzero: &mut u64,
) -> u32 {
    let mut at = band.first - 1;
    loop {
        bits.refill();
        for _ in 0..CODES {
            let mut entry = table.short(bits.peek());
            if entry.length == 0 {
                bits.refill();
                entry = table.long(bits.peek(), entry);
                bits.head.damaged |= entry.length == 0;
            }
            bits.consume(entry.length);
            at += u32::from(entry.advance);
            if entry.advance == END {
                return entry.value as u32 - 1;
            }
            if at > band.last || entry.length == 0 {
                bits.head.damaged = true;
                return 0;
            }
            let value = entry.value << band.low;
            block[usize::from(NATURAL[at as usize])] = value;
            *nonzero |= if value != 0 { bit(at) } else { 0 };
            if at == band.last {
                // A code for a run of zeros must not end a block.
                bits.head.damaged |= entry.value == 0;
                return 0;
            }
        }
    }
}

/// Refines a block: corrects its coefficients, and adds new ones. Returns how many of the following blocks
/// have corrections only.
#[inline(always)]
pub(super) fn refine<M: Masks>(
    bits: &mut Reader<'_>,
    table: &AcTable<Refine>,
    band: Band,
    block: &mut Block,
    nonzero: &mut u64,
) -> u32 {
    let whole = band.from(band.first);
    let (which, zeros) = (*nonzero & whole, !*nonzero & whole);
    // `left` has a single bit, whose position is the number of zeros that are left. A shift and PDEP then
    // find the zero that a code refers to.
    let mut left = 1 << zeros.count_ones();
    let (mut at, mut raised) = (band.first, 0);
    let (mut new, mut negative) = (0, 0);
    bits.refill();
    let run = loop {
        // The lookup needs only bits that are left from the last refill, so it need not wait for the next
        // one.
        let mut entry = table.short(bits.peek());
        bits.refill();
        if entry.length == 0 {
            entry = table.long(bits.peek(), entry);
            if entry.length == 0 {
                bits.head.damaged = true;
                break 0;
            }
            bits.consume(entry.length);
            bits.refill();
        } else {
            bits.consume(entry.length);
        }
        if entry.advance == END {
            raised = append(bits, raised, (which & band.from(at)).count_ones());
            break entry.value as u32 - 1;
        }
        // The code skips zeros, and the coefficients between them, which have correction bits.
        left >>= entry.advance % END;
        let found = M::deposit(left, zeros);
        if found == 0 {
            bits.head.damaged = true;
            break 0;
        }
        let next = found.leading_zeros();
        raised = append(bits, raised, next + 1 - at - u32::from(entry.advance));
        at = next + 1;
        new |= if entry.value != 0 { found } else { 0 };
        negative |= if entry.value < 0 { found } else { 0 };
        if next == band.last {
            bits.head.damaged |= entry.value == 0;
            break 0;
        }
    };
    *nonzero |= new;
    M::raise(block, M::deposit(raised, which) | new, negative, 1 << band.low);
    run
}

/// Corrects the coefficients of a block that gets no new ones.
#[inline(always)]
pub(super) fn correct<M: Masks>(bits: &mut Reader<'_>, band: Band, block: &mut Block, nonzero: u64) {
    bits.refill();
    let which = nonzero & band.from(band.first);
    let raised = append(bits, 0, which.count_ones());
    M::raise(block, M::deposit(raised, which), 0, 1 << band.low);
}

/// Whether a block has a coefficient to correct.
#[inline(always)]
pub(super) fn has_any(band: Band, nonzero: u64) -> bool {
    nonzero & band.from(band.first) != 0
}

/// Appends the next `count` bits to `read`, the correction bits of a block that were read so far. Before the
/// call, at least [`AFTER_CODE`] bits must be available; after it, enough bits for a lookup are available.
#[inline(always)]
fn append(bits: &mut Reader<'_>, mut read: u64, mut count: u32) -> u64 {
    if count > AFTER_CODE {
        bits.refill();
        if count > AT_ONCE {
            read = read << AT_ONCE | bits.peek() >> (64 - AT_ONCE);
            bits.consume(AT_ONCE as u8);
            count -= AT_ONCE;
            bits.refill();
        }
        read = read << count | bits.peek() >> (64 - count);
        bits.consume(count as u8);
        bits.refill();
        return read;
    }
    // The shift is done in two steps, because a shift by 64 bits (if `count` is 0) is not possible.
    read = read << count | bits.peek() >> 1 >> (63 - count);
    bits.consume(count as u8);
    read
}
