//! A Huffman decoder for baseline JPEG in safe Rust: MCU rows to coefficients, or over them.
//!
//! One interleaved scan of 8-bit samples. What is left out is what libjpeg does for damaged streams.

use crate::bits::{Bits, Reader};
use crate::tables::{AcTable, Codes, DcTable, PAIR};

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

pub(crate) struct Component {
    pub(crate) across: usize,
    pub(crate) down: usize,
    tables: (usize, usize),
}

/// A frame and its scan, ready to be decoded.
pub(crate) struct Frame<'a> {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) components: Vec<Component>,
    pub(crate) mcus_per_row: usize,
    pub(crate) mcu_rows: usize,
    /// Component of each block of an MCU.
    pub(crate) layout: Vec<usize>,
    restart_interval: usize,
    pub(crate) scan: &'a [u8],
    /// As the file defines them, one after the other.
    definitions: Vec<&'a [u8]>,
}

impl<'a> Frame<'a> {
    /// `None` for what this decoder does not do.
    pub(crate) fn read(encoded: &'a [u8]) -> Option<Frame<'a>> {
        let (mut at, mut frame, mut restart_interval, mut definitions) = (2, None, 0, vec![]);
        loop {
            let [0xFF, marker, high, low] = *encoded.get(at..)?.first_chunk()? else { return None };
            let end = at + 2 + usize::from(u16::from_be_bytes([high, low]));
            let content = encoded.get(at + 4..end)?;
            at = end;
            match marker {
                0xC0 => frame = Some(content),
                0xC1..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCF => return None,
                0xC4 => definitions.push(content),
                0xDD => restart_interval = usize::from(u16::from_be_bytes(*content.first_chunk()?)),
                0xDA => {
                    let (scan, rest) = (encoded.get(at..)?, definitions);
                    return Frame::new(frame?, content, restart_interval, scan, rest);
                }
                _ => {}
            }
        }
    }

    fn new(
        frame: &[u8],
        header: &[u8],
        restart_interval: usize,
        scan: &'a [u8],
        definitions: Vec<&'a [u8]>,
    ) -> Option<Frame<'a>> {
        let [8, h1, h0, w1, w0, count] = *frame.first_chunk()? else { return None };
        let [height, width] = [[h1, h0], [w1, w0]].map(|pair| usize::from(u16::from_be_bytes(pair)));
        let chosen = header.get(1..)?.as_chunks::<2>().0;
        let mut components: Vec<Component> = frame[6..]
            .as_chunks::<3>()
            .0
            .iter()
            .zip(chosen)
            .map(|([id, sampling, _], [scan_id, tables])| {
                let tables = (usize::from(tables >> 4), usize::from(tables & 15));
                let (across, down) = (usize::from(sampling >> 4), usize::from(sampling & 15));
                (id == scan_id).then_some(Component { across, down, tables })
            })
            .collect::<Option<_>>()?;
        if header[0] != count || components.len() != usize::from(count) {
            return None;
        }
        // The blocks of a scan of one component come one by one, whatever its sampling.
        if let [only] = components.as_mut_slice() {
            (only.across, only.down) = (1, 1);
        }
        let across = components.iter().map(|component| component.across).max()?;
        let down = components.iter().map(|component| component.down).max()?;
        let layout = components
            .iter()
            .enumerate()
            .flat_map(|(index, component)| std::iter::repeat_n(index, component.across * component.down))
            .collect();
        let (mcus_per_row, mcu_rows) = (width.div_ceil(8 * across), height.div_ceil(8 * down));
        Some(Frame {
            width,
            height,
            components,
            mcus_per_row,
            mcu_rows,
            layout,
            restart_interval,
            scan,
            definitions,
        })
    }

    pub(crate) fn blocks_per_row(&self) -> usize {
        self.mcus_per_row * self.layout.len()
    }

    /// Where the scan and each of its restart intervals begin.
    pub(crate) fn intervals(&self) -> Vec<usize> {
        let restart = |pair: &[u8]| matches!(pair, [0xFF, 0xD0..=0xD7]);
        let behind = self.scan.windows(2).enumerate().filter(|(_, pair)| restart(pair)).map(|(at, _)| at + 2);
        std::iter::once(0).chain(behind).collect()
    }

    /// Lines of an MCU row.
    pub(crate) fn mcu_height(&self) -> usize {
        8 * self.components.iter().map(|component| component.down).max().unwrap_or(1)
    }

    pub(crate) fn chroma(&self) -> &'static str {
        match self.components.as_slice() {
            [_] => "grey",
            [y, cb, cr] if cb.across * cb.down == 1 && cr.across * cr.down == 1 => match (y.across, y.down) {
                (1, 1) => "4:4:4",
                (2, 2) => "4:2:0",
                (2, 1) => "4:2:2",
                _ => "other",
            },
            _ => "other",
        }
    }

    /// One for each component, by the identifiers of the scan.
    pub(crate) fn tables(&self) -> Option<Tables> {
        let (mut dc, mut ac) = ([const { None }; 4], [const { None }; 4]);
        for mut definition in self.definitions.iter().copied() {
            while let Some((head, rest)) = definition.split_first_chunk::<17>() {
                let [class, counts @ ..] = head;
                let symbols = counts.iter().map(|count| usize::from(*count)).sum();
                let codes = Codes::new(counts, rest.get(..symbols)?)?;
                let slot = usize::from(class & 15);
                match class >> 4 {
                    0 => *dc.get_mut(slot)? = Some(DcTable::new(codes)?),
                    _ => *ac.get_mut(slot)? = Some(AcTable::new(codes)?),
                }
                definition = &rest[symbols..];
            }
        }
        let complete = self.components.iter().all(|component| {
            let (d, a) = component.tables;
            dc.get(d).is_some_and(Option::is_some) && ac.get(a).is_some_and(Option::is_some)
        });
        complete.then_some(Tables { dc, ac })
    }
}

/// The tables that a file defines.
pub(crate) struct Tables {
    dc: [Option<DcTable>; 4],
    ac: [Option<AcTable>; 4],
}

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
