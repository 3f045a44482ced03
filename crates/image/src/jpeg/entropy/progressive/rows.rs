//! Decodes an AC scan of a progressive JPEG, block by block.

use super::super::bits::{Bits, Head};
use super::super::block::Block;
use super::super::planes::{Grid, Planes};
use super::bands::{self, Band, Masks};
use super::tables::{AcTable, First, Refine};
use crate::jpeg::markers::RST;

/// The number of different restart markers. They follow each other in a fixed cycle.
const RESTARTS: u8 = 8;

/// The coded data of a scan, and its restart markers.
pub(super) struct Data<'a> {
    pub(super) bits: Bits<'a>,
    /// The number of MCUs between restart markers.
    pub(super) interval: usize,
    /// The number of MCUs until the next restart marker.
    pub(super) until_restart: usize,
    pub(super) restart: u8,
}

impl Data<'_> {
    /// Begins the next MCU. Returns whether a restart marker came before it, or `None` if a marker is
    /// missing.
    #[inline(always)]
    pub(super) fn begin(&mut self) -> Option<bool> {
        if self.interval == 0 {
            return Some(false);
        }
        let due = self.until_restart == 0;
        if due {
            let follows = self.bits.sound() && self.bits.restart(RST + self.restart);
            follows.then_some(())?;
            self.restart = (self.restart + 1) % RESTARTS;
            self.until_restart = self.interval;
        }
        self.until_restart -= 1;
        Some(due)
    }

    /// Whether [`go_on`](Self::go_on) must be called before the block at `head`, a position in the data, is
    /// read.
    #[inline(always)]
    fn needs_more(&self, head: Head) -> bool {
        self.interval > 0 || !self.bits.covers(head)
    }

    /// Continues at `head`, a position in the data, and makes the bits of the next block available. Returns
    /// `None` if a restart marker is missing, or if one interrupts a run of blocks, of which `run` are left.
    #[inline(never)]
    fn go_on(&mut self, head: Head, run: u32) -> Option<()> {
        self.bits.go_to(head);
        if self.begin()? && run > 0 {
            return None;
        }
        self.bits.prepare();
        Some(())
    }
}

/// The blocks of an AC scan, which has a single component.
pub(super) struct AcRows<'a> {
    pub(super) planes: &'a mut Planes,
    pub(super) grid: Grid,
    pub(super) band: Band,
    /// Whether this is the first AC scan of the component. The first scan also clears each block just before
    /// it decodes the block, so that the block is loaded from memory only once.
    pub(super) clears: bool,
}

impl AcRows<'_> {
    /// Iterates over the rows of blocks, and in each row over the blocks with their masks of non-zero
    /// coefficients.
    fn each(&mut self) -> impl Iterator<Item = impl Iterator<Item = (&mut Block, &mut u64)>> {
        let Grid { start, stride, width, height, .. } = self.grid;
        let blocks = self.planes.blocks[start..].chunks_mut(stride);
        let nonzero = self.planes.nonzero[start..].chunks_mut(stride);
        let rows = blocks.zip(nonzero).take(height);
        rows.map(move |(blocks, nonzero)| blocks.iter_mut().zip(nonzero).take(width))
    }

    #[inline(always)]
    pub(super) fn first(&mut self, data: &mut Data<'_>, table: &AcTable<First>) -> Option<()> {
        let (band, clears, mut run) = (self.band, self.clears, 0);
        if clears {
            self.planes.clear_beside(self.grid);
        }
        let mut bits = data.bits.reader();
        for row in self.each() {
            for (block, nonzero) in row {
                if clears {
                    *block = [0; 64];
                }
                if data.needs_more(bits.head) {
                    let head = bits.head;
                    data.go_on(head, run)?;
                    bits = data.bits.reader();
                }
                match run {
                    0 => run = bands::first(&mut bits, table, band, block, nonzero),
                    _ => run -= 1,
                }
            }
        }
        let head = bits.head;
        data.bits.go_to(head);
        (run == 0).then_some(())
    }

    #[inline(always)]
    pub(super) fn refine<M: Masks>(&mut self, data: &mut Data<'_>, table: &AcTable<Refine>) -> Option<()> {
        let (band, mut run) = (self.band, 0);
        let mut bits = data.bits.reader();
        for row in self.each() {
            for (block, nonzero) in row {
                if data.needs_more(bits.head) {
                    let head = bits.head;
                    data.go_on(head, run)?;
                    bits = data.bits.reader();
                }
                if run == 0 {
                    run = bands::refine::<M>(&mut bits, table, band, block, nonzero);
                    continue;
                }
                run -= 1;
                if bands::has_any(band, *nonzero) {
                    bands::correct::<M>(&mut bits, band, block, *nonzero);
                }
            }
        }
        let head = bits.head;
        data.bits.go_to(head);
        (run == 0).then_some(())
    }
}
