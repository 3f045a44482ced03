//! Decodes the MCUs of a baseline scan (ITU-T T.81, annex F.2.2) one after the other.

use std::rc::Rc;

use super::bits::{BitBuffer, Bits, Head, Reader};
use super::block::{Block, COMPONENTS};
use super::library::DecodableScan;
use super::tables::{AcTable, DcTable, Known};
use crate::jpeg::markers::{EOI, RST};

/// The index in natural order (row by row) for each index in zigzag order. After the 64 coefficients of a
/// block, there are entries for the indices that an invalid run of zeros can reach.
pub(super) const NATURAL: [u8; 128] = {
    let mut natural = [63; 128];
    let (mut x, mut y, mut up, mut k) = (0, 0, true, 0);
    while k < 64 {
        natural[k] = y * 8 + x;
        match (up, x, y) {
            (true, 7, _) => (y, up) = (y + 1, false),
            (true, _, 0) => (x, up) = (x + 1, false),
            (true, ..) => (x, y) = (x + 1, y - 1),
            (false, _, 7) => (x, up) = (x + 1, true),
            (false, 0, _) => (y, up) = (y + 1, true),
            (false, ..) => (x, y) = (x - 1, y + 1),
        }
        k += 1;
    }
    natural
};
const LAST: usize = 63;

/// The number of pairs of coefficients that are read between refills. A refill gives 56 bits, which is enough
/// for four pairs of 10 bits, and also for one code of 26 bits, which is not in the table, and three pairs.
const PAIRS: usize = 4;

/// The number of `Jump`s, which skip several codes at once, between refills. A refill gives 56 bits, which is
/// enough for two `Jump`s of 21 bits, and also for one code of 26 bits, which is not in the table, and one
/// `Jump`.
const JUMPS: usize = 2;

/// The number of different restart markers. They follow each other in a fixed cycle.
const RESTARTS: u8 = 8;

/// For each component of a scan, its Huffman tables for DC and for AC.
pub(super) struct Tables(Vec<(Rc<DcTable>, Rc<AcTable>)>);

impl Tables {
    pub(super) fn defined_by(
        scan: &DecodableScan<'_>,
        dc: &mut Known<DcTable>,
        ac: &mut Known<AcTable>,
    ) -> Option<Tables> {
        let tables = scan.definitions().map(|(for_dc, for_ac)| Some((dc.table(for_dc)?, ac.table(for_ac)?)));
        tables.collect::<Option<_>>().map(Tables)
    }
}

/// A component's tables, and its state between two of its blocks.
#[derive(Clone, Copy)]
struct Component<'a> {
    dc: &'a DcTable,
    ac: &'a AcTable,
    dc_alone: bool,
    /// The DC coefficient of the component's previous block.
    before: i32,
}

/// Walks through the MCUs of a scan.
pub(super) struct Mcus<'a> {
    bits: Bits<'a>,
    components: [Component<'a>; COMPONENTS],
    /// For each block of an MCU, the index of its component.
    blocks: &'a [u8],
    /// The number of MCUs that are left to decode.
    left: usize,
    restart_interval: usize,
    /// The number of MCUs until the next restart marker.
    until_restart: usize,
    /// The number (0 to 7) of the next restart marker.
    restart: u8,
    sound: bool,
}

impl<'a> Mcus<'a> {
    /// Begins at the first MCU of a scan; `None` if the scan has no component.
    pub(super) fn new(
        scan: &DecodableScan<'a>,
        blocks: &'a [u8],
        tables: &'a Tables,
        window: &'a mut BitBuffer,
    ) -> Option<Mcus<'a>> {
        let component = |index: usize| {
            let (dc, ac) = tables.0.get(index).or(tables.0.first())?;
            Some(Component { dc, ac, dc_alone: scan.needs_dc_alone(index), before: 0 })
        };
        let first = component(0)?;
        Some(Mcus {
            bits: Bits::new(scan.data(), window),
            components: std::array::from_fn(|index| component(index).unwrap_or(first)),
            blocks,
            left: scan.mcus(),
            restart_interval: scan.restart_interval(),
            until_restart: scan.restart_interval(),
            restart: 0,
            sound: true,
        })
    }

    /// Decodes the next MCU into `blocks`; `None` skips it.
    #[inline]
    pub(super) fn next(&mut self, blocks: Option<&mut [&mut Block]>) {
        self.begin();
        let mut bits = self.bits.reader();
        match blocks {
            Some(blocks) => {
                for (block, component) in blocks.iter_mut().zip(self.blocks) {
                    let component = &mut self.components[usize::from(*component) % COMPONENTS];
                    component.before = component.before.wrapping_add(difference(&mut bits, component.dc));
                    **block = [0; 64];
                    block[0] = component.before as i16;
                    if component.dc_alone {
                        pass(&mut bits, component.ac);
                        continue;
                    }
                    coefficients(&mut bits, component.ac, |k, value| {
                        block[usize::from(NATURAL[k % NATURAL.len()])] = value;
                    });
                }
            }
            None => {
                for component in self.blocks {
                    let component = &mut self.components[usize::from(*component) % COMPONENTS];
                    component.before = component.before.wrapping_add(difference(&mut bits, component.dc));
                    pass(&mut bits, component.ac);
                }
            }
        }
        let head = bits.head;
        self.end(head);
    }

    /// Decodes the next MCU into `blocks`. For each block, `masks` gets a bit for each AC coefficient that is
    /// not zero, in zigzag order from the highest bit.
    pub(super) fn next_with_masks(&mut self, blocks: &mut [Block], masks: &mut [u64]) {
        self.begin();
        let mut bits = self.bits.reader();
        for ((block, mask), component) in blocks.iter_mut().zip(masks).zip(self.blocks) {
            let component = &mut self.components[usize::from(*component) % COMPONENTS];
            component.before = component.before.wrapping_add(difference(&mut bits, component.dc));
            *block = [0; 64];
            block[0] = component.before as i16;
            let mut found = 0;
            coefficients(&mut bits, component.ac, |k, value| {
                block[usize::from(NATURAL[k % NATURAL.len()])] = value;
                found |= (u64::from(value != 0) << 63) >> (k % 64);
            });
            *mask = found;
        }
        let head = bits.head;
        self.end(head);
    }

    #[inline(always)]
    fn begin(&mut self) {
        if self.restart_interval > 0 {
            self.skip_restart();
        }
        self.bits.prepare();
    }

    #[inline(always)]
    fn end(&mut self, head: Head) {
        self.bits.go_to(head);
        self.left = self.left.wrapping_sub(1);
    }

    /// Skips a restart marker if one must come here.
    fn skip_restart(&mut self) {
        if self.until_restart == 0 {
            self.sound &= self.bits.sound() && self.bits.restart(RST + self.restart);
            self.restart = (self.restart + 1) % RESTARTS;
            self.until_restart = self.restart_interval;
            self.components.iter_mut().for_each(|component| component.before = 0);
        }
        self.until_restart -= 1;
    }

    /// Whether the data had all bits that were read, and, after the last MCU, the image ends with its end
    /// marker.
    pub(super) fn sound(&mut self) -> bool {
        self.sound && self.bits.sound() && (self.left > 0 || self.bits.stops_at(EOI))
    }
}

#[inline(always)]
pub(super) fn difference(bits: &mut Reader<'_>, table: &DcTable) -> i32 {
    bits.refill();
    let symbol = table.symbol(bits.peek());
    bits.head.damaged |= symbol.is_none();
    let difference = symbol.value(bits.peek());
    bits.consume(symbol.end());
    difference
}

/// Reads the AC coefficients of a block. `store` is called with the zigzag index and the value of each; some
/// of the values may be 0.
#[inline(always)]
fn coefficients(bits: &mut Reader<'_>, table: &AcTable, mut store: impl FnMut(usize, i16)) {
    let mut k = 0;
    loop {
        bits.refill();
        for _ in 0..PAIRS {
            let mut pair = table.pair(bits.peek());
            if pair.length == 0 {
                bits.refill();
                let symbol = table.symbol(bits.peek());
                bits.head.damaged |= symbol.is_none();
                pair = symbol.alone(bits.peek());
            }
            let first = k + usize::from(pair.to_first);
            k = first + usize::from(pair.to_second);
            if k < LAST {
                store(k, pair.second);
                store(first, pair.first);
                bits.consume(pair.length);
                continue;
            }
            // The block ends here: either with its last coefficient, or with an end-of-block code, which has
            // no value and leads beyond the block.
            store(first, pair.first);
            let (last, value, length) = if first < LAST {
                store(k, pair.second);
                (k, pair.second, pair.length)
            } else {
                (first, pair.first, pair.first_length)
            };
            bits.head.damaged |= last > LAST && value != 0;
            bits.consume(length);
            return;
        }
    }
}

/// Skips the AC coefficients of a block.
#[inline(always)]
fn pass(bits: &mut Reader<'_>, table: &AcTable) {
    let Some(jumps) = table.jumps() else { return coefficients(bits, table, |_, _| {}) };
    let mut k = 0;
    loop {
        bits.refill();
        for _ in 0..JUMPS {
            let jump = jumps.next(bits.peek());
            let last = k + jump.forward();
            if last < LAST {
                bits.consume(jump.length);
                if jump.ends_block() {
                    return;
                }
                k = last;
                continue;
            }
            // This step skips a single code, because the code is too long for the table, or because the block
            // ends within the codes of the entry.
            bits.refill();
            let symbol = table.symbol(bits.peek());
            bits.head.damaged |= symbol.is_none();
            bits.consume(symbol.end());
            k += symbol.forward();
            if k >= LAST {
                bits.head.damaged |= k > LAST && symbol.has_value();
                return;
            }
        }
    }
}
