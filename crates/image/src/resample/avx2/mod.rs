//! Resizes levels of 8 bits with AVX2, with two weights of 16 bits at a time.
//!
//! The order of work is that of [`avx512`](super::avx512): a row of the result is first made [`down`] from
//! whole rows of the source, and then [`across`].
#![allow(unsafe_code)]

mod across;
mod constants;
mod down;

use across::Lanes;
use constants::{MOST_PAIRS, REGISTER};
use forebay_base::processor;

use super::super::depth::Depth;
use super::super::geometry::{Mirror, Rect};
use super::super::spec::Size;
use super::decoded::Decoded;
use super::part::Part;
use super::source::RowSource;
use super::target::{ResizeTarget, STRIP_ROWS as ROWS};
use super::weights::LineWeights;

const CACHE_LINE: usize = 64;

/// A thread's state for resizing with AVX2.
#[derive(Default)]
pub(super) struct Avx2 {
    across: LineWeights,
    down: LineWeights,
    lanes: Lanes,
    /// The rows between the two steps.
    rows: Vec<u8>,
}

/// Whether this machine has the required features.
pub(super) fn is_here() -> bool {
    is_x86_feature_detected!("avx2")
}

impl Avx2 {
    /// Stretches a part of a view to the target. Returns whether it did: some scales are not supported here,
    /// and plain copies are not either.
    pub(super) fn resize(
        &mut self,
        decoded: Decoded<'_>,
        (view, part): (Rect, Part),
        (size, mirror): (Size, Mirror),
        target: &mut ResizeTarget<'_>,
    ) -> bool {
        if part.is_copied(size) || decoded.depth != Depth::Eight || !is_here() {
            return false;
        }
        // SAFETY: the machine has the features.
        unsafe { self.resize_256(decoded, (view, part), (size, mirror), target) }.is_some()
    }

    /// The bytes that a resize takes in addition to weights and intermediate rows, for a target with `row`
    /// bytes in a row.
    pub(super) const fn lane_bytes(row: u64) -> u64 {
        Lanes::most_bytes(row) + (ROWS * Lanes::SLACK) as u64
    }

    /// The number of bytes that the state takes.
    pub(super) fn bytes(&self) -> u64 {
        self.across.bytes() + self.down.bytes() + self.lanes.bytes() + self.rows.capacity() as u64
    }

    #[target_feature(enable = "avx2")]
    fn resize_256(
        &mut self,
        decoded: Decoded<'_>,
        (view, part): (Rect, Part),
        (size, mirror): (Size, Mirror),
        target: &mut ResizeTarget<'_>,
    ) -> Option<()> {
        let channels = decoded.channels;
        let Avx2 { across, down, lanes, rows } = self;
        across.set(view.width, (part.left, part.width), size.width)?;
        down.set(view.height, (part.top, part.height), size.height)?;
        (across.pairs.max(down.pairs) <= MOST_PAIRS).then_some(())?;
        let source = RowSource::visible(decoded, view)?;
        match channels {
            1 => lanes.set::<1>(across, mirror.across)?,
            3 => lanes.set::<3>(across, mirror.across)?,
            _ => return None,
        }
        let pitch = source.bytes.next_multiple_of(REGISTER) + Lanes::SLACK;
        if rows.len() < pitch * ROWS {
            *rows = vec![0; pitch * ROWS];
        }
        let rows = &mut rows[..pitch * ROWS];
        let row = size.width as usize * channels;
        let height = size.height as usize;
        for first in (0..height).step_by(ROWS) {
            let made = first..height.min(first + ROWS);
            let some = target.rows(&made, row)?;
            prefetch(some);
            for (to, y) in rows.chunks_exact_mut(pitch).zip(made.clone()) {
                let y = if mirror.down { height - 1 - y } else { y };
                down::source_row(source, down, y, to)?;
            }
            across::write_rows(lanes, across, rows, some, row)?;
            target.made(&made, row);
        }
        Some(())
    }
}

/// Prefetches memory that will be written to and is usually in no cache.
fn prefetch(target: &[u8]) {
    for line in target.chunks(CACHE_LINE) {
        processor::fetch(&line[0]);
    }
}
