//! Rows of several row groups, gathered into the buffers of one batch.
//!
//! A batch owns its memory alone: nothing in it points back into a row group, so that a row group's memory ends when
//! its last row left the window, however long the user keeps the batch. Variable-length columns get 64-bit offsets,
//! which no batch can overflow.

mod bytes;
mod fixed;
mod lists;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, BooleanBufferBuilder, FixedSizeBinaryArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::{DataType, Field, FieldRef};

pub(crate) use fixed::pattern as fill_pattern;

use crate::error::{Error, ErrorKind, Result};

/// Rows to gather, in output order.
pub enum Selection {
    /// A source, and a row in it.
    Rows(Vec<(u32, u32)>),
    /// Rows in any order, many of one source before the next: half as much to read for each value as a pair is.
    Stretches {
        /// In output order.
        rows: Vec<u32>,
        /// A source, and where in `rows` its stretch ends.
        stretches: Vec<(u32, usize)>,
    },
    /// Consecutive rows of a source.
    Runs {
        /// In output order.
        runs: Vec<Run>,
        /// How many rows they have together.
        rows: usize,
    },
}

/// Consecutive rows of one source.
#[derive(Clone, Copy)]
pub struct Run {
    /// Which source.
    pub source: u32,
    /// Its first row.
    pub start: u32,
    /// How many.
    pub rows: u32,
}

/// Below this many rows to a run on average, copying row by row is as fast and needs no list of runs.
const WORTHWHILE_RUN: usize = 8;

/// Below this many rows of one source on average before the next, a stretch costs more than it saves.
const WORTHWHILE_STRETCH: usize = 64;

/// Columns smaller than this lie in the first cache anyway.
const STREAMED: usize = 32 << 10;

impl Selection {
    /// The given sources and rows in them, in whichever form is fastest to copy.
    pub fn new(picks: Vec<(u32, u32)>) -> Self {
        let follows = |pair: &[(u32, u32)]| pair[0].0 == pair[1].0 && pair[0].1 + 1 == pair[1].1;
        let breaks = picks.windows(2).filter(|pair| !follows(pair)).count();
        if (breaks + 1) * WORTHWHILE_RUN > picks.len() {
            return Selection::scattered(picks);
        }
        let mut runs: Vec<Run> = Vec::with_capacity(breaks + 1);
        for &(source, row) in &picks {
            match runs.last_mut() {
                Some(run) if run.source == source && run.start + run.rows == row => run.rows += 1,
                _ => runs.push(Run { source, start: row, rows: 1 }),
            }
        }
        Selection::Runs { runs, rows: picks.len() }
    }

    fn scattered(picks: Vec<(u32, u32)>) -> Self {
        let changes = picks.windows(2).filter(|pair| pair[0].0 != pair[1].0).count();
        if (changes + 1) * WORTHWHILE_STRETCH > picks.len() {
            return Selection::Rows(picks);
        }
        let mut end = 0;
        let stretches = picks.chunk_by(|a, b| a.0 == b.0).map(|stretch| {
            end += stretch.len();
            (stretch[0].0, end)
        });
        let stretches = stretches.collect();
        Selection::Stretches { rows: picks.into_iter().map(|(_, row)| row).collect(), stretches }
    }

    fn len(&self) -> usize {
        match self {
            Selection::Rows(picks) => picks.len(),
            Selection::Stretches { rows, .. } => rows.len(),
            Selection::Runs { rows, .. } => *rows,
        }
    }

    /// Visits source and row of each selected row.
    fn for_each(&self, mut visit: impl FnMut(usize, usize)) {
        match self {
            Selection::Rows(picks) => {
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

    /// Appends the selected values of fixed-size items, `stride` of them to a row.
    fn copy<T: Copy>(&self, sources: &[&[T]], stride: usize, out: &mut Vec<T>) {
        out.reserve(self.len() * stride);
        match self {
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

    /// The selected bits; a source without bits has ones.
    fn bits(&self, sources: &[Option<&BooleanBuffer>]) -> BooleanBuffer {
        let bit = |source: usize, row: usize| sources[source].is_none_or(|bits| bits.value(row));
        match self {
            Selection::Rows(picks) => {
                BooleanBuffer::collect_bool(picks.len(), |at| bit(picks[at].0 as usize, picks[at].1 as usize))
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

    /// The validity of the selected rows; `None` where all are valid.
    fn nulls(&self, sources: &[&dyn Array]) -> Option<NullBuffer> {
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

/// Reads a source in order before most of it is read at random: in order the processor fetches ahead at the memory's
/// full speed, at random it waits for line after line.
fn stream<T: Copy>(source: &[T], wanted: usize) {
    const LINE: usize = 64;
    const WORTHWHILE_SHARE: usize = 4;
    if wanted >= source.len() / WORTHWHILE_SHARE && size_of_val(source) >= STREAMED {
        source.iter().step_by((LINE / size_of::<T>()).max(1)).for_each(|value| {
            std::hint::black_box(*value);
        });
    }
}

/// The field as a batch delivers it, for a field as row groups hold it.
pub(crate) fn delivered(field: &Field) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Utf8View | DataType::Utf8 => DataType::LargeUtf8,
        DataType::BinaryView | DataType::Binary => DataType::LargeBinary,
        DataType::List(item) => DataType::LargeList(item.clone()),
        other => other.clone(),
    };
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()))
}

/// Gathers one column. `fill` replaces nulls of numeric columns.
///
/// # Errors
/// The type is not one that is delivered, or `fill` is not a value of it.
pub fn gather(sources: &[&dyn Array], selection: &Selection, fill: Option<f64>) -> Result<ArrayRef> {
    let Some(first) = sources.first() else {
        return Err(Error::new(ErrorKind::Internal, "a batch of no sources"));
    };
    match first.data_type() {
        DataType::Boolean => booleans(sources, selection),
        DataType::Utf8View | DataType::BinaryView => bytes::gather(sources, selection),
        DataType::List(_) | DataType::LargeList(_) => lists::gather(sources, selection),
        DataType::FixedSizeList(_, _) => lists::gather_fixed(sources, selection),
        DataType::FixedSizeBinary(width) => fixed_bytes(sources, selection, *width),
        _ => fixed::gather(sources, selection, fill),
    }
}

fn booleans(sources: &[&dyn Array], selection: &Selection) -> Result<ArrayRef> {
    let arrays: Vec<&BooleanArray> = downcast(sources)?;
    let values: Vec<Option<&BooleanBuffer>> = arrays.iter().map(|array| Some(array.values())).collect();
    let values = selection.bits(&values);
    Ok(Arc::new(BooleanArray::new(values, selection.nulls(sources))))
}

fn fixed_bytes(sources: &[&dyn Array], selection: &Selection, width: i32) -> Result<ArrayRef> {
    let arrays: Vec<&FixedSizeBinaryArray> = downcast(sources)?;
    let values: Vec<&[u8]> = arrays.iter().map(|array| array.value_data()).collect();
    let mut out = Vec::new();
    selection.copy(&values, width as usize, &mut out);
    Ok(Arc::new(FixedSizeBinaryArray::try_new(width, Buffer::from_vec(out), selection.nulls(sources))?))
}

/// The sources as arrays of one concrete type.
fn downcast<'a, A: Array + 'static>(sources: &[&'a dyn Array]) -> Result<Vec<&'a A>> {
    let typed = sources.iter().map(|source| source.as_any().downcast_ref::<A>());
    typed
        .collect::<Option<_>>()
        .ok_or_else(|| Error::new(ErrorKind::Internal, "row groups disagree on a column's type"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::*;
    use arrow::datatypes::{Float32Type, Int32Type};

    /// Every type, gathered scattered and in runs, equals arrow's own `interleave` of the same rows.
    #[test]
    fn rows_are_those_that_arrow_interleaves() {
        let sources: Vec<Vec<ArrayRef>> = vec![
            vec![
                Arc::new(Int32Array::from((0..40).map(|i| (i % 3 != 0).then_some(i)).collect::<Vec<_>>())),
                Arc::new(Int32Array::from((100..140).collect::<Vec<_>>())),
            ],
            vec![
                Arc::new(BooleanArray::from((0..40).map(|i| Some(i % 3 == 0)).collect::<Vec<_>>())),
                Arc::new(BooleanArray::from(
                    (0..40).map(|i| (i % 5 != 0).then_some(i % 2 == 0)).collect::<Vec<_>>(),
                )),
            ],
            vec![
                Arc::new(StringViewArray::from(
                    (0..40).map(|i| (i % 7 != 0).then(|| "x".repeat(i))).collect::<Vec<_>>(),
                )),
                Arc::new(StringViewArray::from(
                    (0..40).map(|i| Some(format!("row {i}"))).collect::<Vec<_>>(),
                )),
            ],
            vec![
                Arc::new(FixedSizeBinaryArray::try_from_iter((0..40u8).map(|i| [i; 3])).unwrap()),
                Arc::new(FixedSizeBinaryArray::try_from_iter((40..80u8).map(|i| [i; 3])).unwrap()),
            ],
            vec![
                Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(
                    (0..40)
                        .map(|i| {
                            (i % 4 != 0)
                                .then(|| (0..i).map(|j| Some(j as f32)))
                                .into_iter()
                                .flatten()
                                .collect::<Vec<_>>()
                        })
                        .map(Some),
                )),
                Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>((0..40).map(|i| {
                    (i % 9 != 0).then(|| (0..i % 5).map(|j| (j != 2).then_some(j as f32)).collect::<Vec<_>>())
                }))),
            ],
            vec![
                Arc::new(FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
                    (0..40).map(|i| Some([Some(i), None, Some(-i)])),
                    3,
                )),
                Arc::new(FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
                    (0..40).map(|i| (i % 2 == 0).then_some([Some(i); 3])),
                    3,
                )),
            ],
        ];
        let scattered: Vec<(u32, u32)> = (0..60).map(|i| (i % 2, (i * 17) % 40)).collect();
        let runs: Vec<(u32, u32)> = (5..30).map(|row| (0, row)).chain((0..40).map(|row| (1, row))).collect();
        let single: Vec<(u32, u32)> = (0..30).map(|i| (0, (i * 7) % 40)).collect();
        let straddling: Vec<(u32, u32)> = (0..200).map(|i| (i / 100, (i * 7) % 40)).collect();
        for column in &sources {
            // Slices have offsets, which a gather by hand can get wrong.
            for offset in [0, 3] {
                let arrays: Vec<ArrayRef> =
                    column.iter().map(|array| array.slice(offset, 40 - offset)).collect();
                let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
                for picks in [&scattered, &runs, &single, &straddling] {
                    let picks: Vec<(u32, u32)> =
                        picks.iter().filter(|pick| (pick.1 as usize) < 40 - offset).copied().collect();
                    let indices: Vec<(usize, usize)> =
                        picks.iter().map(|&(s, r)| (s as usize, r as usize)).collect();
                    let got = gather(&arrays, &Selection::new(picks), None).unwrap();
                    let expected = arrow::compute::interleave(&arrays, &indices).unwrap();
                    let expected = arrow::compute::cast(&expected, got.data_type()).unwrap();
                    assert_eq!(&got, &expected);
                }
            }
        }
    }

    #[test]
    fn a_fill_replaces_nulls_and_must_be_a_value_of_the_type() {
        let array = Int32Array::from(vec![Some(1), None, Some(3)]);
        let selection = || Selection::new(vec![(0, 1), (0, 2)]);
        let filled = gather(&[&array], &selection(), Some(-1.0)).unwrap();
        assert_eq!(filled.as_primitive::<Int32Type>(), &Int32Array::from(vec![-1, 3]));
        assert_eq!(gather(&[&array], &selection(), Some(0.5)).unwrap_err().kind(), ErrorKind::Invalid);
    }
}
