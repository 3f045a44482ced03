//! Joins and cuts the byte ranges of column chunks, so that few requests of a good size read them.

use std::ops::Range;

/// The largest gap between two column chunks that is read and thrown away to save a request. A fast link
/// transfers about this many bytes in the time that a request costs.
const MAX_GAP: u64 = 256 << 10;

/// For each unwanted byte in the gaps that are read, at least this many wanted bytes must be read.
const MIN_BYTES_PER_GAP_BYTE: u64 = 16;

/// The approximate size in bytes of the requests into which a long range is divided. It is large enough that
/// the wait for the first byte is short in comparison, and small enough to use several connections and to
/// lose little when one of them breaks.
const PIECE_BYTES: u64 = 8 << 20;

/// A contiguous range of a file that is read as a whole, including gaps between the wanted ranges.
#[derive(Debug, PartialEq)]
pub(super) struct ByteRun {
    pub(super) range: Range<u64>,
    /// The ranges of the requests that read the run, in order and without gaps.
    pub(super) pieces: Vec<Range<u64>>,
}

/// Joins ranges that are close together into runs, ordered by offset, and cuts long runs into pieces.
pub(super) fn runs(ranges: &[Range<u64>]) -> Vec<ByteRun> {
    let mut sorted: Vec<&Range<u64>> = ranges.iter().filter(|range| range.start < range.end).collect();
    sorted.sort_unstable_by_key(|range| (range.start, range.end));
    let wanted: u64 = sorted.iter().map(|range| range.end - range.start).sum();
    let mut waste = wanted / MIN_BYTES_PER_GAP_BYTE;
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        if let Some(last) = joined.last_mut() {
            let gap = range.start.saturating_sub(last.end);
            if gap <= MAX_GAP.min(waste) {
                waste -= gap;
                last.end = last.end.max(range.end);
                continue;
            }
        }
        joined.push(range.clone());
    }
    joined.into_iter().map(|range| ByteRun { pieces: pieces(&range), range }).collect()
}

/// Cuts a range into pieces of equal length, about [`PIECE_BYTES`] each.
fn pieces(range: &Range<u64>) -> Vec<Range<u64>> {
    let length = range.end - range.start;
    let count = ((length + PIECE_BYTES / 2) / PIECE_BYTES).max(1);
    let border =
        |piece: u64| range.start + (u128::from(length) * u128::from(piece) / u128::from(count)) as u64;
    (0..count).map(|piece| border(piece)..border(piece + 1)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init, reason = "lists of ranges, some of one")]

    use super::*;

    fn joined(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        runs(ranges).into_iter().map(|run| run.range).collect()
    }

    #[test]
    fn neighbours_are_one_run_and_distant_chunks_are_not() {
        assert_eq!(joined(&[4..100, 100..200, 200..300]), [4..300]);
        assert_eq!(joined(&[200..300, 4..100]), [4..100, 200..300], "a gap of 100 in 196 wanted is too much");
        let chunk = 4 << 20;
        let close = chunk + (100 << 10);
        assert_eq!(joined(&[0..chunk, close..2 * chunk]), [0..2 * chunk]);
        assert_eq!(joined(&[0..chunk, chunk + MAX_GAP + 1..3 * chunk]).len(), 2);
    }

    #[test]
    fn empty_and_overlapping_ranges_do_no_harm() {
        assert_eq!(joined(&[5..5]), []);
        assert_eq!(joined(&[0..10, 5..7, 8..20]), [0..20]);
    }

    #[test]
    fn what_is_read_along_stays_a_small_share() {
        let ranges: Vec<_> = (0..100u64).map(|i| i * 200_000..i * 200_000 + 100_000).collect();
        let read: u64 = joined(&ranges).iter().map(|range| range.end - range.start).sum();
        let wanted = 100 * 100_000;
        assert!((wanted..=wanted + wanted / MIN_BYTES_PER_GAP_BYTE).contains(&read), "{read}");
    }

    #[test]
    fn pieces_cover_their_run() {
        for length in [1, PIECE_BYTES, PIECE_BYTES * 3 / 2, PIECE_BYTES * 7 + 13] {
            let run = &runs(&[10..10 + length])[0];
            assert_eq!(run.pieces.first().map(|piece| piece.start), Some(10));
            assert_eq!(run.pieces.last().map(|piece| piece.end), Some(10 + length));
            assert!(run.pieces.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert!(run.pieces.iter().all(|piece| piece.end - piece.start <= PIECE_BYTES * 3 / 2));
        }
    }
}
