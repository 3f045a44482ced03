//! Holds all coefficients of an image in blocks of 8x8, for JPEGs whose coefficients come in several scans.

use super::block::Block;
use super::frame::Frame;

/// Where the blocks of one component (luma, or one of the two chromas) are. Its rows are padded to whole
/// MCUs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    /// The index of the component's first block among the blocks of all components.
    pub(super) start: usize,
    /// The number of the component's blocks in an MCU, across and down.
    pub(super) across: usize,
    pub(super) down: usize,
    /// The number of blocks in a padded row.
    pub(super) stride: usize,
    /// The number of blocks across and down without padding. If a scan has this component alone, it codes
    /// only these blocks.
    pub(super) width: usize,
    pub(super) height: usize,
}

/// The coefficients of an image, in memory that is reused for the next one.
#[derive(Default)]
pub(super) struct Planes {
    pub(super) grids: Vec<Grid>,
    /// The AC coefficients of each block. Until the first AC scan of a component, its blocks still hold those
    /// of an earlier image.
    pub(super) blocks: Vec<Block>,
    /// The DC coefficient of each block. It is kept apart from the block, so that DC scans need not load
    /// blocks.
    pub(super) dc: Vec<i16>,
    /// For each block, a mask with a bit for each AC coefficient that is not zero. The first coefficient in
    /// zigzag order has the highest bit.
    pub(super) nonzero: Vec<u64>,
    pub(super) mcus_per_row: usize,
    pub(super) mcu_rows: usize,
}

impl Planes {
    /// Makes room for the blocks of a frame. DC coefficients are set to zero here; AC coefficients are set to
    /// zero later, by [`clear_beside`](Self::clear_beside) and by the first AC scan.
    pub(super) fn begin(&mut self, frame: &Frame) {
        (self.mcus_per_row, self.mcu_rows) = (frame.mcus_per_row(), frame.mcu_rows());
        self.grids.clear();
        let mut start = 0;
        for component in &frame.components {
            let (across, down) = frame.blocks_of_mcu(component);
            let stride = self.mcus_per_row * across;
            let (width, height) = frame.blocks_of(component);
            self.grids.push(Grid { start, across, down, stride, width, height });
            start += stride * self.mcu_rows * down;
        }
        self.blocks.resize(start, [0; 64]);
        self.dc.clear();
        self.dc.resize(start, 0);
        self.nonzero.clear();
        self.nonzero.resize(start, 0);
    }

    /// Clears the padding blocks of a component, at the right and at the bottom, because a scan of the
    /// component alone does not code them.
    pub(super) fn clear_beside(&mut self, grid: Grid) {
        let rows = self.blocks[grid.start..].chunks_mut(grid.stride).take(self.mcu_rows * grid.down);
        for (y, row) in rows.enumerate() {
            row[if y < grid.height { grid.width } else { 0 }..].fill([0; 64]);
        }
    }

    /// Returns block number `at` with its DC coefficient; `None` if there is no such block.
    fn block(&self, at: usize) -> Option<Block> {
        let mut block = *self.blocks.get(at)?;
        block[0] = *self.dc.get(at)?;
        Some(block)
    }

    /// The blocks of the MCU at this column and row, each with its mask of non-zero coefficients. They are in
    /// the order in which a scan of all components codes them.
    pub(super) fn mcu(&self, column: usize, row: usize) -> impl Iterator<Item = (Block, u64)> {
        let places = self.grids.iter().flat_map(move |grid| {
            (0..grid.down).flat_map(move |y| {
                let first = grid.start + (row * grid.down + y) * grid.stride + column * grid.across;
                first..first + grid.across
            })
        });
        places.filter_map(|at| Some((self.block(at)?, *self.nonzero.get(at)?)))
    }

    /// The number of bytes of memory that is allocated.
    pub(super) fn bytes(&self) -> u64 {
        fn capacity_bytes<T>(all: &Vec<T>) -> usize {
            all.capacity() * size_of::<T>()
        }
        (capacity_bytes(&self.blocks) + capacity_bytes(&self.dc) + capacity_bytes(&self.nonzero)) as u64
    }
}

/// Walks through the MCUs of an image whose coefficients are complete.
pub(super) struct PlanesMcus<'a> {
    planes: &'a Planes,
    column: usize,
    row: usize,
}

impl<'a> PlanesMcus<'a> {
    pub(super) fn new(planes: &'a Planes) -> PlanesMcus<'a> {
        PlanesMcus { planes, column: 0, row: 0 }
    }

    /// Copies the next MCU to `blocks`; `None` skips it.
    pub(super) fn next(&mut self, blocks: Option<&mut [&mut Block]>) {
        if let Some(blocks) = blocks {
            for (to, (from, _)) in blocks.iter_mut().zip(self.planes.mcu(self.column, self.row)) {
                **to = from;
            }
        }
        self.column += 1;
        if self.column == self.planes.mcus_per_row {
            (self.column, self.row) = (0, self.row + 1);
        }
    }
}
