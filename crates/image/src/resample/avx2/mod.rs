//! Resizes levels of 8 bits with AVX2, with two weights of 16 bits at a time.
//!
//! Work is done in the order of [`avx512`](super::avx512): four rows are first resized vertically ([`down`])
//! to intermediate rows, and then horizontally ([`across`]).
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
    /// The intermediate rows, which are resized vertically but not yet horizontally.
    rows: Vec<u8>,
}

/// Whether this processor has AVX2.
pub(super) fn is_here() -> bool {
    is_x86_feature_detected!("avx2")
}

impl Avx2 {
    /// Resizes a part of a view to the target. Returns false, and leaves the target unchanged, for plain
    /// copies and for scales that this code does not support.
    pub(super) fn resize(
        &mut self,
        decoded: Decoded<'_>,
        view: Rect,
        part: Part,
        size: Size,
        mirror: Mirror,
        target: &mut ResizeTarget<'_>,
    ) -> bool {
        if part.is_copied(size) || decoded.depth != Depth::Eight || !is_here() {
            return false;
        }
        // SAFETY: `is_here` found that the processor has AVX2.
        unsafe { self.resize_256(decoded, view, part, size, mirror, target) }.is_some()
    }

    /// The bytes that a resize needs in addition to weights and intermediate rows, if a row of the target has
    /// `row` bytes.
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
        view: Rect,
        part: Part,
        size: Size,
        mirror: Mirror,
        target: &mut ResizeTarget<'_>,
    ) -> Option<()> {
        let channels = decoded.channels;
        let Avx2 { across, down, lanes, rows } = self;
        across.set(view.width, part.left, part.width, size.width)?;
        down.set(view.height, part.top, part.height, size.height)?;
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

/// Prefetches memory that is about to be written and is usually not in the processor's cache.
fn prefetch(target: &[u8]) {
    for line in target.chunks(CACHE_LINE) {
        processor::fetch(&line[0]);
    }
}
