//! A Huffman decoder for baseline JPEG in safe Rust: MCU rows to coefficients, or over them.
//!
//! One interleaved scan of 8-bit samples. What is left out is what libjpeg does for damaged streams.

use crate::bits::{Bits, Reader};
use crate::frame::{Frame, Tables};
use crate::tables::{AcTable, DcTable, PAIR};

/// Coefficients of a block, in natural order.
pub(crate) type Block = [i16; 64];

/// Index in natural order of each coefficient in zigzag order. Behind a block's 64 are as many as the longest run goes
/// too far, all to a place beside the block.
const NATURAL: [u8; 128] = {
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

/// A place in a scan.
pub(crate) struct Cursor<'f, 't> {
    bits: Bits<'f>,
    /// For each block of an MCU: its component, and the tables.
    layout: Vec<(usize, &'t DcTable, &'t AcTable)>,
    mcus_per_row: usize,
    /// DC of the block before, for each component.
    before: [i32; 4],
    restart_interval: usize,
    /// MCUs until the next restart marker.
    until_restart: usize,
}

impl<'f, 't> Cursor<'f, 't> {
    pub(crate) fn new(frame: &Frame<'f>, tables: &'t Tables) -> Option<Cursor<'f, 't>> {
        let block = |index: &usize| {
            let (dc, ac) = frame.components.get(*index)?.tables;
            Some((*index, tables.dc[dc].as_ref()?, tables.ac[ac].as_ref()?))
        };
        Some(Cursor {
            bits: Bits::new(frame.scan),
            layout: frame.layout.iter().map(block).collect::<Option<_>>()?,
            mcus_per_row: frame.mcus_per_row,
            before: [0; 4],
            restart_interval: frame.restart_interval,
            until_restart: frame.restart_interval,
        })
    }

    /// Begins at `scan`: a frame's, or what follows one of its restart markers.
    pub(crate) fn begin(&mut self, scan: &'f [u8]) {
        self.bits.restart(scan);
        self.before = [0; 4];
        self.until_restart = self.restart_interval;
    }

    /// Bits read since the last restart, the DC that the next blocks are counted from, and whether all that was there.
    pub(crate) fn place(&self) -> (usize, [i32; 4], bool) {
        (self.bits.position(), self.before, !self.bits.overrun())
    }

    /// Decodes an MCU row, block by block as the scan has them.
    pub(crate) fn decode_row(&mut self, blocks: &mut [Block]) {
        let in_mcu = self.layout.len();
        for mcu in blocks.chunks_exact_mut(in_mcu).take(self.mcus_per_row) {
            self.begin_mcu();
            let mut bits = self.bits.reader();
            for (block, (component, dc, ac)) in mcu.iter_mut().zip(&self.layout) {
                let before = &mut self.before[*component];
                *before += difference(&mut bits, dc);
                *block = [0; 64];
                block[0] = *before as i16;
                coefficients(&mut bits, ac, block);
            }
            let head = bits.head;
            self.bits.go_to(head);
        }
    }

    /// Passes over an MCU row.
    pub(crate) fn skip_row(&mut self) {
        for _ in 0..self.mcus_per_row {
            self.begin_mcu();
            let mut bits = self.bits.reader();
            for (component, dc, ac) in &self.layout {
                self.before[*component] += difference(&mut bits, dc);
                skip_coefficients(&mut bits, ac);
            }
            let head = bits.head;
            self.bits.go_to(head);
        }
    }

    #[inline(always)]
    fn begin_mcu(&mut self) {
        if self.restart_interval > 0 {
            if self.until_restart == 0 {
                self.begin(self.bits.behind_marker().unwrap_or_default());
            }
            self.until_restart -= 1;
        }
        self.bits.prepare();
    }
}

#[inline(always)]
fn difference(bits: &mut Reader<'_>, table: &DcTable) -> i32 {
    bits.refill();
    let symbol = table.symbol(bits.peek());
    let difference = symbol.value(bits.peek());
    bits.consume(symbol.end());
    difference
}

/// Pairs read between refills: 4 x 11 bits, of 56.
const PAIRS: usize = 4;
/// Jumps between refills: 2 x 22 bits.
const JUMPS: usize = 2;

#[inline(always)]
fn coefficients(bits: &mut Reader<'_>, table: &AcTable, block: &mut Block) {
    let mut k = 0;
    loop {
        bits.refill();
        for _ in 0..PAIRS {
            let mut pair = table.pair(bits.peek());
            if pair.length == 0 {
                bits.refill();
                let symbol = table.symbol(bits.peek());
                pair = symbol.alone(bits.peek());
            }
            let first = k + usize::from(pair.to_first);
            k = first + usize::from(pair.to_second);
            if k >= 63 {
                // What ends a block adds no bits to the last one.
                block[usize::from(NATURAL[first & 127])] |= pair.first;
                let length = if first < 63 {
                    block[usize::from(NATURAL[k & 127])] |= pair.second;
                    pair.length
                } else {
                    pair.first_length
                };
                bits.consume(length);
                return;
            }
            block[usize::from(NATURAL[k])] = pair.second;
            block[usize::from(NATURAL[first])] = pair.first;
            bits.consume(pair.length);
            if pair.length > PAIR as u8 {
                bits.refill();
            }
        }
    }
}

#[inline(always)]
fn skip_coefficients(bits: &mut Reader<'_>, table: &AcTable) {
    let mut k = 0;
    loop {
        bits.refill();
        for _ in 0..JUMPS {
            let jump = table.jump(bits.peek());
            let within = k + usize::from(jump.advance);
            if within > 63 {
                let symbol = table.symbol(bits.peek());
                bits.consume(symbol.end());
                k += usize::from(symbol.advance);
            } else {
                bits.consume(jump.length);
                k = within + usize::from(jump.end);
            }
            if k >= 63 {
                return;
            }
        }
    }
}
