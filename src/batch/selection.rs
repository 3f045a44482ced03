//! Selections of rows that are copied from several arrays to a batch, in the form that is fastest to copy.

use forebay_arrow::array::{Array, BooleanBufferBuilder};
use forebay_arrow::buffer::{BooleanBuffer, NullBuffer};
use forebay_base::processor;

/// The rows to copy, in output order. Each row comes from a source: one of several arrays of decoded row
/// groups.
pub enum Selection {
    /// For each output row, its source and its number in the source.
    Rows(Vec<(u32, u32)>),
    /// Rows in any order, but with long stretches of rows that come from one source. The source is stored
    /// once for a whole stretch, so an output row takes half the bytes that it takes in `Rows`.
    Stretches {
        /// The rows in output order.
        rows: Vec<u32>,
        /// For each stretch its source, and the index in `rows` at which it ends.
        stretches: Vec<(u32, usize)>,
    },
    /// Rows scattered over more memory than the processor's cache holds. Values of fixed width are read
    /// nearly in stored order and written to their places in the output, because only the output fits into
    /// the cache.
    Spread {
        /// The source and the row of each output row.
        picks: Vec<(u32, u32)>,
        /// Pairs of a row and its place in the output, sorted by source and roughly by row.
        lying: Vec<(u32, u32)>,
        /// For each stretch its source, and the index in `lying` at which it ends.
        stretches: Vec<(u32, usize)>,
    },
    /// Rows of several sources that are consecutive within each source, but interleaved in the output. A
    /// source is read from front to back, and its values are written to their places in a part of the output
    /// that fits into the cache.
    Interleaved {
        /// The source and the row of each output row.
        picks: Vec<(u32, u32)>,
        /// The parts of the output, each with the rows that are written to it.
        blocks: Vec<Block>,
    },
    /// Rows of which many are consecutive in their source.
    Runs {
        /// The runs in output order.
        runs: Vec<Run>,
        /// The number of rows in all runs.
        rows: usize,
    },
}

/// A part of the output, and the rows of each source that belong there.
pub struct Block {
    runs: Vec<Run>,
    /// For each row of all runs, one run after the other, its place in the block.
    places: Vec<u16>,
}

/// Consecutive rows of one source.
#[derive(Clone, Copy)]
pub struct Run {
    /// The index of the source.
    pub source: u32,
    /// The first row.
    pub start: u32,
    /// The number of rows.
    pub rows: u32,
}

impl Run {
    /// The row after the last one; `None` if its number would be too large.
    pub(super) fn end(&self) -> Option<u32> {
        self.start.checked_add(self.rows)
    }
}

/// Rows are stored as runs if the runs have at least this number of rows on average. With fewer, copying row
/// by row is as fast and needs no list of runs.
const MIN_RUN_ROWS: usize = 8;

/// Rows are stored as stretches if the stretches have at least this number of rows on average. With fewer, a
/// stretch costs more than it saves.
const MIN_STRETCH_ROWS: usize = 64;

/// If all sources together have at least this number of rows, their columns are too large for the
/// second-level cache.
const MIN_SPREAD_ROWS: usize = 1 << 17;
/// Scattered rows are sorted by the section of their source that they are in. A section has 2 to the power of
/// this number of rows, about a page of memory.
const STRETCH_ROWS_SHIFT: u32 = 10;

/// The number of output rows that are written together, whose values fit into a first-level cache.
const BLOCK_ROWS: usize = 1 << 13;
/// The largest number of output rows that are written together: with many sources a block is larger, so that
/// each source has some rows in it. A second-level cache must hold their values, and 16 bits must be able to
/// count them.
const MAX_BLOCK_ROWS: usize = 1 << 15;

/// The number of values that are copied together if runs are short, because a copy of a fixed size needs no
/// function call.
const COPIED_TOGETHER: usize = 8;
/// Runs are copied as short ones if they have at most this number of values on average.
const MAX_SHORT_RUN: usize = 64;

/// The number of runs that are fetched into the processor's cache ahead of the one that is being copied.
const RUNS_AHEAD: usize = 4;
/// How many cache lines of a run are fetched ahead. The processor detects by itself that memory is read in
/// order, but only after some lines, and most runs are not longer than that.
const LINES_AHEAD: usize = 32;
/// The number of cache lines of short runs that are fetched ahead, which is about how many lines a core can
/// wait for at a time.
const LINES_IN_FLIGHT: usize = 32;

/// The number of bytes that the cache fetches together.
const LINE_BYTES: usize = 64;

/// The least size of a column that is fetched ahead. Smaller ones are in the first-level cache anyway.
const MIN_STREAMED_BYTES: usize = 32 << 10;

impl Block {
    /// Makes the block for the output rows `picks`, pairs of a source and a row. `None` if the rows of a
    /// source are not consecutive, or if there are too few rows for each source.
    fn new(picks: &[(u32, u32)], sources: usize) -> Option<Self> {
        let mut runs: Vec<Run> =
            (0..sources as u32).map(|source| Run { source, start: 0, rows: 0 }).collect();
        for &(source, row) in picks {
            let run = &mut runs[source as usize];
            if run.rows == 0 {
                run.start = row;
            }
            if run.start + run.rows != row {
                return None;
            }
            run.rows += 1;
        }
        let begins =
            runs.iter().scan(0, |next, run| Some(std::mem::replace(next, *next + run.rows as usize)));
        let mut next: Vec<usize> = begins.collect();
        runs.retain(|run| run.rows > 0);
        if runs.len() * MIN_RUN_ROWS > picks.len() {
            return None;
        }
        let mut places = vec![0; picks.len()];
        for (place, (source, _)) in picks.iter().enumerate() {
            let at = &mut next[*source as usize];
            places[*at] = place as u16;
            *at += 1;
        }
        Some(Block { runs, places })
    }

    /// Writes the values of the block's rows to their places.
    fn write<T: Copy>(&self, sources: &[&[T]], stride: usize, out: &mut [T]) {
        let values = |run: &Run| {
            let start = run.start as usize * stride;
            &sources[run.source as usize][start..start + run.rows as usize * stride]
        };
        let mut rest = &self.places[..];
        self.runs.iter().take(RUNS_AHEAD).for_each(|run| prefetch(values(run)));
        for (at, run) in self.runs.iter().enumerate() {
            if let Some(next) = self.runs.get(at + RUNS_AHEAD) {
                prefetch(values(next));
            }
            let values = values(run);
            let (places, after) = rest.split_at(run.rows as usize);
            rest = after;
            match stride {
                1 => values.iter().zip(places).for_each(|(value, place)| out[usize::from(*place)] = *value),
                _ => values.chunks_exact(stride).zip(places).for_each(|(values, place)| {
                    out[usize::from(*place) * stride..][..stride].copy_from_slice(values);
                }),
            }
        }
    }
}

impl Selection {
    /// Brings pairs of a source and a row, in output order, into the form that is fastest to copy.
    pub fn new(picks: Vec<(u32, u32)>) -> Self {
        Selection::runs(picks).or_else(Selection::stretches).unwrap_or_else(Selection::spread)
    }

    /// Makes a selection of rows that come from parts of sources, where the rows taken from a part are near
    /// each other in memory. `picks` has pairs of a part and a row, and `sources` has the source of each
    /// part.
    pub fn near(picks: Vec<(u32, u32)>, sources: &[u32]) -> Self {
        let longer = Selection::runs(picks).or_else(Selection::stretches);
        match longer.or_else(Selection::interleaved) {
            Ok(selection) => selection.with_sources(sources),
            Err(mut picks) => {
                picks.iter_mut().for_each(|(source, _)| *source = sources[*source as usize]);
                Selection::by_source(picks)
            }
        }
    }

    /// Replaces the index of a part, which this selection has in place of a source, by the part's source,
    /// `sources[part]`.
    fn with_sources(mut self, sources: &[u32]) -> Self {
        let exchange = |source: &mut u32| *source = sources[*source as usize];
        match &mut self {
            Selection::Rows(picks) => picks.iter_mut().for_each(|(source, _)| exchange(source)),
            Selection::Stretches { stretches, .. } => {
                stretches.iter_mut().for_each(|(source, _)| exchange(source));
            }
            Selection::Spread { picks, stretches, .. } => {
                picks.iter_mut().for_each(|(source, _)| exchange(source));
                stretches.iter_mut().for_each(|(source, _)| exchange(source));
            }
            Selection::Interleaved { picks, blocks } => {
                picks.iter_mut().for_each(|(source, _)| exchange(source));
                blocks.iter_mut().flat_map(|block| &mut block.runs).for_each(|run| exchange(&mut run.source));
            }
            Selection::Runs { runs, .. } => runs.iter_mut().for_each(|run| exchange(&mut run.source)),
        }
        self
    }

    /// Joins consecutive rows to runs. If the runs would be too short, gives `picks` back as the error.
    fn runs(picks: Vec<(u32, u32)>) -> Result<Self, Vec<(u32, u32)>> {
        let follows = |a: &(u32, u32), b: &(u32, u32)| a.0 == b.0 && a.1 + 1 == b.1;
        let Some(breaks) = breaks_within(&picks, picks.len() / MIN_RUN_ROWS, follows) else {
            return Err(picks);
        };
        let mut runs: Vec<Run> = Vec::with_capacity(breaks + 1);
        runs.extend(picks.chunk_by(follows).map(|run| {
            let (source, start) = run[0];
            Run { source, start, rows: run.len() as u32 }
        }));
        Ok(Selection::Runs { runs, rows: picks.len() })
    }

    /// A selection of rows from a single source, in this order.
    pub fn of_one(rows: Vec<u32>) -> Self {
        let stretches = vec![(0, rows.len())];
        Selection::Stretches { rows, stretches }
    }

    /// The rows of a selection that [`of_one`](Self::of_one) made; `None` for others.
    pub(crate) fn rows_of_one(&self) -> Option<&[u32]> {
        match self {
            Selection::Stretches { rows, stretches } if stretches.len() == 1 => Some(rows),
            _ => None,
        }
    }

    /// Returns the rows of a selection whose rows all come from one source.
    pub(crate) fn into_rows(self) -> Vec<u32> {
        match self {
            Selection::Stretches { rows, .. } => rows,
            other => {
                let mut rows = Vec::with_capacity(other.len());
                other.for_each(|_, row| rows.push(row as u32));
                rows
            }
        }
    }

    /// Joins neighbouring rows of one source to stretches. If these would be too short, gives `picks` back as
    /// the error.
    fn stretches(picks: Vec<(u32, u32)>) -> Result<Self, Vec<(u32, u32)>> {
        if breaks_within(&picks, picks.len() / MIN_STRETCH_ROWS, |a, b| a.0 == b.0).is_none() {
            return Err(picks);
        }
        let mut end = 0;
        let stretches = picks.chunk_by(|a, b| a.0 == b.0).map(|stretch| {
            end += stretch.len();
            (stretch[0].0, end)
        });
        let stretches = stretches.collect();
        Ok(Selection::Stretches { rows: picks.into_iter().map(|(_, row)| row).collect(), stretches })
    }

    /// Divides the output into blocks, and lists the rows of each block source by source. If the rows of a
    /// source are not consecutive within a block, or are too few, gives `picks` back as the error.
    fn interleaved(picks: Vec<(u32, u32)>) -> Result<Self, Vec<(u32, u32)>> {
        let sources = picks.iter().map(|(source, _)| *source as usize + 1).max().unwrap_or(0);
        let rows = (2 * MIN_RUN_ROWS * sources).next_power_of_two().clamp(BLOCK_ROWS, MAX_BLOCK_ROWS);
        let blocks = picks.chunks(rows).map(|picks| Block::new(picks, sources)).collect();
        match blocks {
            Some(blocks) => Ok(Selection::Interleaved { picks, blocks }),
            None => Err(picks),
        }
    }

    /// Sorts the rows by source, so that the values of a source are in the first-level cache when they are
    /// copied.
    fn by_source(picks: Vec<(u32, u32)>) -> Self {
        let sources = picks.iter().map(|(source, _)| *source as usize + 1).max().unwrap_or(0);
        if sources * MIN_RUN_ROWS > picks.len() {
            return Selection::Rows(picks);
        }
        let mut ends = vec![0; sources];
        picks.iter().for_each(|(source, _)| ends[*source as usize] += 1);
        let mut lying = vec![(0, 0); picks.len()];
        sort(&picks, &mut ends, |(source, _)| source as usize, &mut lying);
        let stretches = ends.into_iter().enumerate().map(|(source, end)| (source as u32, end)).collect();
        Selection::Spread { picks, lying, stretches }
    }

    /// Sorts rows by source, and within a source by sections of 2 to the power of [`STRETCH_ROWS_SHIFT`]
    /// rows. Leaves the rows in output order if the sources are small or the rows are few.
    fn spread(picks: Vec<(u32, u32)>) -> Self {
        let sources = picks.iter().map(|(source, _)| *source as usize + 1).max().unwrap_or(0);
        // For each source, the first section with a picked row, and the section after the last one.
        let mut ranges = vec![(u32::MAX, 0); sources];
        for (source, row) in &picks {
            let (first, end) = &mut ranges[*source as usize];
            (*first, *end) =
                ((*first).min(row >> STRETCH_ROWS_SHIFT), (*end).max((row >> STRETCH_ROWS_SHIFT) + 1));
        }
        let blocks: Vec<usize> =
            ranges.iter().map(|(first, end)| end.saturating_sub(*first) as usize).collect();
        let all: usize = blocks.iter().sum();
        if all << STRETCH_ROWS_SHIFT < MIN_SPREAD_ROWS || all > picks.len() {
            return Selection::Rows(picks);
        }
        let first: Vec<usize> =
            blocks.iter().scan(0, |next, blocks| Some(std::mem::replace(next, *next + blocks))).collect();
        let block = |(source, row): (u32, u32)| {
            first[source as usize] + ((row >> STRETCH_ROWS_SHIFT) - ranges[source as usize].0) as usize
        };
        let mut ends = vec![0; all];
        picks.iter().for_each(|pick| ends[block(*pick)] += 1);
        let mut lying = vec![(0, 0); picks.len()];
        sort(&picks, &mut ends, block, &mut lying);
        let last = |source: usize| ends[first[source] + blocks[source] - 1];
        let stretches =
            (0..sources).filter(|source| blocks[*source] > 0).map(|source| (source as u32, last(source)));
        let stretches = stretches.collect();
        Selection::Spread { picks, lying, stretches }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Selection::Rows(picks)
            | Selection::Spread { picks, .. }
            | Selection::Interleaved { picks, .. } => picks.len(),
            Selection::Stretches { rows, .. } => rows.len(),
            Selection::Runs { rows, .. } => *rows,
        }
    }

    /// Calls `visit` with the source and the row of each selected row.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize, usize)) {
        match self {
            Selection::Rows(picks)
            | Selection::Spread { picks, .. }
            | Selection::Interleaved { picks, .. } => {
                picks.iter().for_each(|&(source, row)| visit(source as usize, row as usize))
            }
            Selection::Stretches { rows, stretches } => {
                let mut from = 0;
                for &(source, to) in stretches {
                    rows[from..to].iter().for_each(|&row| visit(source as usize, row as usize));
                    from = to;
                }
            }
            Selection::Runs { runs, .. } => {
                for run in runs {
                    (run.start..run.start + run.rows)
                        .for_each(|row| visit(run.source as usize, row as usize));
                }
            }
        }
    }

    /// Calls `visit` with the source, the first row and the number of rows of each run. If the rows are not
    /// known to be consecutive, each row is passed as a run of one row.
    pub(super) fn for_each_run(&self, mut visit: impl FnMut(usize, usize, usize)) {
        match self {
            Selection::Runs { runs, .. } => {
                runs.iter().for_each(|run| visit(run.source as usize, run.start as usize, run.rows as usize))
            }
            rows => rows.for_each(|source, row| visit(source, row, 1)),
        }
    }

    /// The selected rows as runs, in output order.
    pub(crate) fn to_runs(&self) -> Vec<Run> {
        let mut runs = Vec::with_capacity(self.len());
        self.for_each_run(|source, start, rows| {
            runs.push(Run { source: source as u32, start: start as u32, rows: rows as u32 });
        });
        runs
    }

    /// Appends the selected rows, each of which has `stride` values of fixed size.
    pub(super) fn copy<T: Copy + Default>(&self, sources: &[&[T]], stride: usize, out: &mut Vec<T>) {
        out.reserve(self.len() * stride);
        match self {
            _ if stride == 0 => {}
            Selection::Interleaved { picks, blocks } => {
                let begin = out.len();
                out.resize(begin + picks.len() * stride, T::default());
                let mut rest = &mut out[begin..];
                for block in blocks {
                    let (out, after) = rest.split_at_mut(block.places.len() * stride);
                    block.write(sources, stride, out);
                    rest = after;
                }
            }
            Selection::Spread { lying, stretches, .. } => {
                let begin = out.len();
                out.resize(begin + lying.len() * stride, T::default());
                let (out, mut from) = (&mut out[begin..], 0);
                for &(source, to) in stretches {
                    let (source, lying) = (sources[source as usize], &lying[from..to]);
                    match stride {
                        1 => {
                            lying.iter().for_each(|&(row, place)| out[place as usize] = source[row as usize])
                        }
                        _ => lying
                            .iter()
                            .map(|&(row, place)| (row as usize * stride, place as usize * stride))
                            .for_each(|(at, to)| {
                                out[to..to + stride].copy_from_slice(&source[at..at + stride])
                            }),
                    }
                    from = to;
                }
            }
            Selection::Runs { runs, rows } if rows * stride <= runs.len() * MAX_SHORT_RUN => {
                copy_short_runs(runs, sources, stride, rows * stride, out);
            }
            Selection::Runs { runs, .. } => {
                for run in runs {
                    let from = run.start as usize * stride;
                    out.extend_from_slice(
                        &sources[run.source as usize][from..from + run.rows as usize * stride],
                    );
                }
            }
            Selection::Stretches { rows, stretches } => {
                let mut from = 0;
                for &(source, to) in stretches {
                    let (source, rows) = (sources[source as usize], &rows[from..to]);
                    stream(source, rows.len() * stride);
                    match stride {
                        1 => out.extend(rows.iter().map(|&row| source[row as usize])),
                        _ => rows.iter().map(|&row| row as usize * stride).for_each(|at| {
                            out.extend_from_slice(&source[at..at + stride]);
                        }),
                    }
                    from = to;
                }
            }
            Selection::Rows(picks) if stride == 1 => {
                out.extend(picks.iter().map(|&(source, row)| sources[source as usize][row as usize]));
            }
            Selection::Rows(picks) => {
                for &(source, row) in picks {
                    let from = row as usize * stride;
                    out.extend_from_slice(&sources[source as usize][from..from + stride]);
                }
            }
        }
    }

    /// Returns the bits of the selected rows. In a source without bits, all bits count as ones.
    pub(super) fn bits(&self, sources: &[Option<&BooleanBuffer>]) -> BooleanBuffer {
        let bit = |source: usize, row: usize| sources[source].is_none_or(|bits| bits.value(row));
        match self {
            Selection::Rows(picks) | Selection::Interleaved { picks, .. } => {
                BooleanBuffer::collect_bool(picks.len(), |at| bit(picks[at].0 as usize, picks[at].1 as usize))
            }
            Selection::Spread { lying, stretches, .. } => {
                let mut bits = BooleanBufferBuilder::new(lying.len());
                bits.append_n(lying.len(), true);
                let mut from = 0;
                for &(source, to) in stretches {
                    if let Some(source) = sources[source as usize] {
                        let unset = lying[from..to].iter().filter(|(row, _)| !source.value(*row as usize));
                        unset.for_each(|(_, place)| bits.set_bit(*place as usize, false));
                    }
                    from = to;
                }
                bits.finish()
            }
            Selection::Stretches { rows, stretches } => {
                let mut bits = BooleanBufferBuilder::new(rows.len());
                let mut from = 0;
                for &(source, to) in stretches {
                    match sources[source as usize] {
                        None => bits.append_n(to - from, true),
                        Some(source) => {
                            let rows = &rows[from..to];
                            let stretch =
                                BooleanBuffer::collect_bool(rows.len(), |at| source.value(rows[at] as usize));
                            bits.append_buffer(&stretch);
                        }
                    }
                    from = to;
                }
                bits.finish()
            }
            Selection::Runs { runs, rows } => {
                let mut bits = BooleanBufferBuilder::new(*rows);
                for run in runs {
                    let (start, rows) = (run.start as usize, run.rows as usize);
                    match sources[run.source as usize] {
                        None => bits.append_n(rows, true),
                        Some(source) => bits.append_buffer(&source.slice(start, rows)),
                    }
                }
                bits.finish()
            }
        }
    }

    /// The validity of the selected rows; `None` if all are valid.
    pub(super) fn nulls(&self, sources: &[&dyn Array]) -> Option<NullBuffer> {
        let nulls: Vec<Option<&NullBuffer>> = sources.iter().map(|source| source.nulls()).collect();
        if nulls.iter().all(|nulls| nulls.is_none_or(|nulls| nulls.null_count() == 0)) {
            return None;
        }
        let bits: Vec<Option<&BooleanBuffer>> =
            nulls.iter().map(|nulls| nulls.map(NullBuffer::inner)).collect();
        let nulls = NullBuffer::new(self.bits(&bits));
        (nulls.null_count() > 0).then_some(nulls)
    }
}

/// Copies the rows of `runs`, in this order, to `out`. A source's row has `bytes` bytes. It is written into a
/// row of `out`, which has `row` bytes, from byte `at` of that row on.
pub(crate) fn copy_rows(
    runs: &[Run],
    sources: &[&[u8]],
    bytes: usize,
    at: usize,
    row: usize,
    out: &mut [u8],
) {
    let values = |run: &Run| {
        let start = run.start as usize * bytes;
        &sources[run.source as usize][start..start + run.rows as usize * bytes]
    };
    let mut rest = out;
    runs.iter().take(RUNS_AHEAD).for_each(|run| prefetch(values(run)));
    for (number, run) in runs.iter().enumerate() {
        if let Some(next) = runs.get(number + RUNS_AHEAD) {
            prefetch(values(next));
        }
        let (rows, after) = rest.split_at_mut(run.rows as usize * row);
        match bytes == row {
            true => rows.copy_from_slice(values(run)),
            false => {
                rows.chunks_exact_mut(row).zip(values(run).chunks_exact(bytes)).for_each(|(row, from)| {
                    row[at..at + bytes].copy_from_slice(from);
                })
            }
        }
        rest = after;
    }
}

/// Appends the `count` values of `runs`. `COPIED_TOGETHER` values are copied at a time, so values from behind
/// the end of a run may be copied too; they are removed again.
fn copy_short_runs<T: Copy>(runs: &[Run], sources: &[&[T]], stride: usize, count: usize, out: &mut Vec<T>) {
    out.reserve(count + COPIED_TOGETHER);
    let values = |run: &Run| &sources[run.source as usize][run.start as usize * stride..];
    let soon = |run: &Run| prefetch_all(&values(run)[..run.rows as usize * stride]);
    let ahead = (runs.len() * LINES_IN_FLIGHT * LINE_BYTES / (count * size_of::<T>()).max(1))
        .clamp(RUNS_AHEAD, LINES_IN_FLIGHT);
    runs.iter().take(ahead).for_each(soon);
    for (at, run) in runs.iter().enumerate() {
        runs.get(at + ahead).into_iter().for_each(soon);
        let (from, length) = (values(run), run.rows as usize * stride);
        let end = out.len() + length;
        match from.get(..length.next_multiple_of(COPIED_TOGETHER)) {
            Some(whole) if length <= MAX_SHORT_RUN => {
                whole.as_chunks::<COPIED_TOGETHER>().0.iter().for_each(|some| out.extend_from_slice(some));
                out.truncate(end);
            }
            _ => out.extend_from_slice(&from[..length]),
        }
    }
}

/// Writes the row and the output place of each pick to `lying`, sorted by bucket with a counting sort. `ends`
/// has the number of picks in each bucket, and is replaced by the index in `lying` at which each bucket ends.
fn sort(
    picks: &[(u32, u32)],
    ends: &mut [usize],
    bucket: impl Fn((u32, u32)) -> usize,
    lying: &mut [(u32, u32)],
) {
    let mut begin = 0;
    for end in &mut *ends {
        begin += std::mem::replace(end, begin);
    }
    for (place, pick) in picks.iter().enumerate() {
        let at = &mut ends[bucket(*pick)];
        lying[*at] = (pick.1, place as u32);
        *at += 1;
    }
}

/// Counts the neighbouring picks that do not belong together. `None` if these breaks divide the picks into
/// more than `parts` parts, which is usually known after a few picks.
fn breaks_within(
    picks: &[(u32, u32)],
    parts: usize,
    belong: impl Fn(&(u32, u32), &(u32, u32)) -> bool,
) -> Option<usize> {
    const AT_ONCE: usize = 256;
    let mut breaks = 0;
    for begin in (0..picks.len()).step_by(AT_ONCE) {
        let some = &picks[begin..picks.len().min(begin + AT_ONCE + 1)];
        breaks += some.windows(2).filter(|pair| !belong(&pair[0], &pair[1])).count();
        if breaks >= parts {
            return None;
        }
    }
    (breaks < parts).then_some(breaks)
}

/// Reads a whole source in order, which brings it into the cache, if at least a quarter of it will soon be
/// read at random. In order, the processor fetches ahead at the memory's full speed; at random, it waits for
/// one line after another.
fn stream<T: Copy>(source: &[T], wanted: usize) {
    const WORTHWHILE_SHARE: usize = 4;
    if wanted >= source.len() / WORTHWHILE_SHARE && size_of_val(source) >= MIN_STREAMED_BYTES {
        source.iter().step_by((LINE_BYTES / size_of::<T>()).max(1)).for_each(|value| {
            std::hint::black_box(*value);
        });
    }
}

/// Requests all cache lines of a few values, which may begin in the middle of a line.
fn prefetch_all<T>(values: &[T]) {
    prefetch(values);
    values.last().into_iter().for_each(processor::fetch);
}

/// Requests the first cache lines of `values` from the processor, without waiting for them.
fn prefetch<T>(values: &[T]) {
    values.iter().step_by((LINE_BYTES / size_of::<T>()).max(1)).take(LINES_AHEAD).for_each(processor::fetch);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_source_without_nulls_are_valid_in_every_form() {
        let with_nulls = BooleanBuffer::from(vec![false, true, false]);
        let sources = [None, Some(&with_nulls)];
        let picks = vec![(0, 2), (0, 0), (1, 0), (1, 1), (0, 1), (1, 2)];
        let expected: Vec<bool> = picks.iter().map(|&(source, row)| source == 0 || row == 1).collect();
        let runs = picks.iter().map(|&(source, start)| Run { source, start, rows: 1 }).collect();
        let stretches = Selection::Stretches {
            rows: picks.iter().map(|pick| pick.1).collect(),
            stretches: vec![(0, 2), (1, 4), (0, 5), (1, 6)],
        };
        for form in [stretches, Selection::Runs { runs, rows: 6 }, Selection::Rows(picks)] {
            assert_eq!(form.bits(&sources).iter().collect::<Vec<_>>(), expected);
        }
    }

    /// In this test each source has two parts, each part gives its rows in order, and the rows are more than
    /// fit into one block.
    #[test]
    fn rows_that_are_interleaved_come_in_their_order() {
        const PARTS: usize = 6;
        let of = [0, 0, 1, 1, 2, 2];
        let begins = [7, 90_000, 0, 60_000, 3, 50_000];
        let mut next = begins;
        let picks: Vec<(u32, u32)> = (0..2 * BLOCK_ROWS as u64 + 1_000)
            .map(|at| {
                let part = ((at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % PARTS as u64) as usize;
                next[part] += 1;
                (part as u32, next[part] - 1)
            })
            .collect();
        let values: Vec<Vec<u32>> =
            (0..3).map(|source| (0..400_000).map(|at| at * 3 + source).collect()).collect();
        let sources: Vec<&[u32]> = values.iter().map(Vec::as_slice).collect();
        let selection = Selection::near(picks.clone(), &of);
        assert!(matches!(selection, Selection::Interleaved { .. }));
        assert_eq!(selection.len(), picks.len());
        for stride in [0, 1, 3] {
            let expected: Vec<u32> = picks
                .iter()
                .flat_map(|(part, row)| {
                    &values[of[*part as usize] as usize][*row as usize * stride..][..stride]
                })
                .copied()
                .collect();
            let mut found = vec![9];
            selection.copy(&sources, stride, &mut found);
            assert!(found[0] == 9 && found[1..] == expected, "stride {stride}");
        }
        let mut row_by_row = Vec::new();
        selection.for_each(|source, row| row_by_row.push(values[source][row]));
        let expected = picks.iter().map(|(part, row)| values[of[*part as usize] as usize][*row as usize]);
        assert!(row_by_row.into_iter().eq(expected));
    }

    /// In this test the parts are small, forty of them are in one source, and some have nulls.
    #[test]
    fn rows_of_many_small_parts_come_in_their_order() {
        const PARTS: u32 = 200;
        let of: Vec<u32> = (0..PARTS).map(|part| part / 40).collect();
        let picks: Vec<(u32, u32)> =
            (0..3_000u32).map(|at| (at * 77 % PARTS, at * 77 % PARTS % 40 * 10 + at / 7 % 10)).collect();
        let values: Vec<Vec<u32>> =
            (0..5).map(|source| (0..400).map(|at| at * 5 + source).collect()).collect();
        let valid: Vec<BooleanBuffer> =
            (0..5).map(|source| (0..400).map(|at| (at * source) % 3 == 0).collect()).collect();
        let selection = Selection::near(picks.clone(), &of);
        assert!(matches!(selection, Selection::Spread { .. }));
        let picks = picks.iter().map(|(part, row)| (of[*part as usize] as usize, *row as usize));
        let sources: Vec<&[u32]> = values.iter().map(Vec::as_slice).collect();
        let mut found = vec![9];
        selection.copy(&sources, 1, &mut found);
        let expected: Vec<u32> = picks.clone().map(|(source, row)| values[source][row]).collect();
        assert!(found[0] == 9 && found[1..] == expected);
        let bits: Vec<Option<&BooleanBuffer>> =
            valid.iter().enumerate().map(|(source, bits)| (source > 1).then_some(bits)).collect();
        let expected: BooleanBuffer =
            picks.map(|(source, row)| bits[source].is_none_or(|bits| bits.value(row))).collect();
        assert_eq!(selection.bits(&bits), expected);
    }

    /// Only numbers 1 and 3 of the five sources give rows, and they are not consecutive.
    #[test]
    fn sources_that_give_no_row_change_nothing() {
        const ROWS: u32 = 1 << 18;
        let values: Vec<Vec<u32>> =
            (0..5).map(|source| (0..ROWS).map(|at| at * 5 + source).collect()).collect();
        let sources: Vec<&[u32]> = values.iter().map(Vec::as_slice).collect();
        let valid: BooleanBuffer = (0..ROWS).map(|row| row % 3 == 0).collect();
        let bits = [None, None, None, Some(&valid), None];
        let picks: Vec<(u32, u32)> =
            (0..ROWS).map(|at| (at % 2 * 2 + 1, at.wrapping_mul(77_773) % ROWS)).collect();
        let expected: Vec<u32> =
            picks.iter().map(|&(source, row)| values[source as usize][row as usize]).collect();
        let expected_bits: BooleanBuffer =
            picks.iter().map(|&(source, row)| source == 1 || row % 3 == 0).collect();
        for selection in [Selection::new(picks.clone()), Selection::near(picks, &[0, 1, 2, 3, 4])] {
            assert!(matches!(selection, Selection::Spread { .. }));
            let mut found = Vec::new();
            selection.copy(&sources, 1, &mut found);
            assert!(found == expected);
            assert!(selection.bits(&bits) == expected_bits);
        }
    }

    /// Some runs are long, some end where their source ends, and some rows have several values.
    #[test]
    fn short_runs_are_copied_as_far_as_they_go() {
        let values: Vec<Vec<u16>> = (0..3).map(|source| (source..1_200 + source).collect()).collect();
        let sources: Vec<&[u16]> = values.iter().map(Vec::as_slice).collect();
        for stride in [1, 3] {
            let rows = values[0].len() as u32 / stride;
            let lengths = [0, 1, 7, 8, 9, 31, 64, 65, 200].into_iter();
            let runs = lengths.enumerate().flat_map(|(at, length)| {
                [at as u32, rows - length].map(|start| Run { source: at as u32 % 3, start, rows: length })
            });
            // The runs added here lower the average length so far that all runs count as short.
            let runs: Vec<Run> =
                runs.chain((0..40).map(|at| Run { source: 1, start: at, rows: 2 })).collect();
            let count = runs.iter().map(|run| run.rows as usize).sum::<usize>();
            assert!(count * stride as usize <= runs.len() * MAX_SHORT_RUN);
            let expected: Vec<u16> = runs
                .iter()
                .flat_map(|run| {
                    let (from, to) = (run.start * stride, (run.start + run.rows) * stride);
                    &values[run.source as usize][from as usize..to as usize]
                })
                .copied()
                .collect();
            let mut found = vec![9];
            Selection::Runs { runs, rows: count }.copy(&sources, stride as usize, &mut found);
            assert!(found[0] == 9 && found[1..] == expected, "stride {stride}");
        }
    }

    /// The lengths of runs and stretches are on both sides of the limits, and there are more rows than
    /// `breaks_within` examines at once.
    #[test]
    fn the_form_follows_from_the_number_of_runs() {
        for rows in [1_024u32, 1_025, 1_500] {
            for run in [7, 8, 9, 64] {
                let picks: Vec<(u32, u32)> = (0..rows).map(|at| (at / run, at % run)).collect();
                let runs = rows.div_ceil(run) as usize;
                let are_worthwhile = runs * MIN_RUN_ROWS <= rows as usize;
                let found = Selection::runs(picks);
                assert_eq!(found.is_ok(), are_worthwhile, "{rows} rows in runs of {run}");
                if let Ok(Selection::Runs { runs: found, .. }) = found {
                    assert_eq!(found.len(), runs);
                }
            }
            for stretch in [63, 64, 65, 128] {
                let picks: Vec<(u32, u32)> = (0..rows).map(|at| (at / stretch, at * 7 % rows)).collect();
                let stretches = rows.div_ceil(stretch) as usize;
                let are_worthwhile = stretches * MIN_STRETCH_ROWS <= rows as usize;
                assert_eq!(Selection::stretches(picks).is_ok(), are_worthwhile, "{rows} rows by {stretch}");
            }
        }
        assert!(Selection::runs(Vec::new()).is_err() && Selection::stretches(Vec::new()).is_err());
    }

    #[test]
    fn rows_that_are_not_consecutive_are_gathered_one_by_one() {
        let mut picks: Vec<(u32, u32)> = (0..1_000).map(|at| (at % 3, at / 3)).collect();
        assert!(matches!(Selection::near(picks.clone(), &[0, 1, 2]), Selection::Interleaved { .. }));
        picks.swap(500, 503);
        assert!(matches!(Selection::near(picks, &[0, 1, 2]), Selection::Spread { .. }));
        let few = (0..1_000).map(|at| (at % 200, at / 200)).collect();
        assert!(matches!(Selection::near(few, &(0..200).collect::<Vec<_>>()), Selection::Rows(_)));
    }
}
