//! One rank in a separate process: reads its share, and reports each batch to the process that started it.

use std::io::{self, BufWriter, Read, Write};
use std::time::Duration;

use arrow_row::{RowConverter, SortField};
use forebay::{LoaderSpec, Position, Wait};
use forebay_arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use forebay_arrow::datatypes::{DataType, Int64Type};
use forebay_arrow::fail::{Foreign, OrFail};
use forebay_base::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::feed::{self, MixSource, ROW_ID, RowName};
use crate::location::Location;

/// How long a rank waits for a batch: practically for ever, since the process that started it can end it.
const BATCH_TIMEOUT: Duration = Duration::from_hours(24);

/// The task of a rank. It comes on standard input, because locations may hold secrets.
#[derive(Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) location: Location,
    pub(super) spec: LoaderSpec,
    /// The sources of a mix, one for each location; empty if the locations are one data set.
    pub(super) mix: Vec<MixSource>,
    pub(super) position: Option<Position>,
    pub(super) epochs: u64,
}

/// A delivered row: its source and row id, and a hash of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArrivedRow {
    pub(super) name: RowName,
    pub(super) hash: u64,
}

/// A batch that a rank received.
pub(super) struct ReceivedBatch {
    pub(super) epoch: u64,
    pub(super) rows: Vec<ArrivedRow>,
    /// The position of the rank after the batch, as JSON.
    pub(super) position: String,
}

/// Runs a rank to the end of its epochs.
pub(crate) fn run() -> Result<()> {
    let told = io::read_to_string(io::stdin()).map_err(Foreign::into_error)?;
    let job: Job = serde_json::from_str(&told)
        .map_err(|_| Error::invalid("verify-rank is a part of verify").hint("run `forebay verify`"))?;
    let datasets = match job.mix.is_empty() {
        true => vec![job.location.open()?],
        false => job.location.open_each()?,
    };
    let loader = feed::build(&datasets, &job.spec, &job.mix)?;
    let columns = feed::columns(&loader);
    if let Some(position) = &job.position {
        loader.restore(position)?;
    }
    let mut out = BufWriter::new(io::stdout().lock());
    while loader.position().epoch < job.epochs {
        let mut epoch = loader.next_epoch();
        let number = epoch.number();
        loop {
            match epoch.next_step(BATCH_TIMEOUT) {
                Wait::Step(step) => {
                    let step = step?;
                    loader.handed_over(&step.after);
                    let position = serde_json::to_string(&loader.position()).map_err(internal)?;
                    let report =
                        ReceivedBatch { epoch: number, rows: rows(&step.batch, &columns)?, position };
                    report.write(&mut out).and_then(|()| out.flush()).map_err(Foreign::into_error)?;
                }
                Wait::Pending => {}
                Wait::Finished => break,
            }
        }
    }
    Ok(())
}

fn internal(error: serde_json::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("a position is not JSON: {error}"))
}

/// The identity and the hash of each row of a batch. `columns` names, for each source, the columns whose
/// values are hashed.
pub(super) fn rows(batch: &RecordBatch, columns: &[Vec<String>]) -> Result<Vec<ArrivedRow>> {
    let column = |name: &str| batch.schema().index_of(name).map(|at| batch.column(at).clone()).or_fail();
    let ids = column(ROW_ID)?;
    // With `--window` a sample has several rows, so each column has a list of values for each sample.
    let is_window = !matches!(ids.data_type(), DataType::Int64);
    let each = |column: ArrayRef| if is_window { rows_of_windows(&column) } else { column };
    let ids = each(ids);
    let sources = match columns.len() {
        1 => None,
        // A mix adds a last column with the number of each row's source.
        _ => batch.columns().last().map(|sources| sources.as_primitive::<Int64Type>().clone()),
    };
    let of = |row: usize| sources.as_ref().map_or(0, |sources| sources.value(row) as usize);
    let mut rows: Vec<ArrivedRow> = ids
        .as_primitive::<Int64Type>()
        .values()
        .iter()
        .enumerate()
        .map(|(row, id)| ArrivedRow { name: (of(row) as u32, *id), hash: 0 })
        .collect();
    for (source, names) in columns.iter().enumerate() {
        let values = names.iter().map(|name| column(name).map(each)).collect::<Result<Vec<_>>>()?;
        let fields = values.iter().map(|column| SortField::new(column.data_type().clone())).collect();
        let bytes = RowConverter::new(fields).or_fail()?.convert_columns(&values).or_fail()?;
        for (at, row) in rows.iter_mut().enumerate().filter(|(at, _)| of(*at) == source) {
            // Rows without columns are all equal.
            row.hash = if names.is_empty() { 0 } else { xxh3_64(bytes.row(at).as_ref()) };
        }
    }
    Ok(rows)
}

/// Flattens a column of windows, so that each stored row has one value.
fn rows_of_windows(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::FixedSizeList(..) => column.as_fixed_size_list().values().clone(),
        DataType::LargeList(_) => column.as_list::<i64>().values().clone(),
        _ => column.clone(),
    }
}

impl ReceivedBatch {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for number in [self.epoch, self.rows.len() as u64, self.position.len() as u64] {
            out.write_all(&number.to_le_bytes())?;
        }
        out.write_all(self.position.as_bytes())?;
        for row in &self.rows {
            let (source, id) = row.name;
            out.write_all(&u64::from(source).to_le_bytes())?;
            out.write_all(&id.to_le_bytes())?;
            out.write_all(&row.hash.to_le_bytes())?;
        }
        Ok(())
    }

    /// Reads the next report of a rank. Fails if the rank has ended.
    pub(super) fn read(from: &mut impl Read) -> io::Result<ReceivedBatch> {
        let mut word = || {
            let mut bytes = [0; 8];
            from.read_exact(&mut bytes).map(|()| bytes)
        };
        let [epoch, rows, length] = [word()?, word()?, word()?].map(u64::from_le_bytes);
        let mut position = vec![0; length as usize];
        from.read_exact(&mut position)?;
        let mut word = || {
            let mut bytes = [0; 8];
            from.read_exact(&mut bytes).map(|()| bytes)
        };
        let rows = (0..rows).map(|_| {
            let name = (u64::from_le_bytes(word()?) as u32, i64::from_le_bytes(word()?));
            Ok(ArrivedRow { name, hash: u64::from_le_bytes(word()?) })
        });
        let rows = rows.collect::<io::Result<_>>()?;
        Ok(ReceivedBatch { epoch, rows, position: String::from_utf8_lossy(&position).into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let rows =
            vec![ArrivedRow { name: (0, -5), hash: u64::MAX }, ArrivedRow { name: (7, i64::MAX), hash: 0 }];
        let report = ReceivedBatch { epoch: 3, rows: rows.clone(), position: r#"{"epoch":3}"#.into() };
        let mut bytes = Vec::new();
        report.write(&mut bytes).unwrap();
        report.write(&mut bytes).unwrap();
        let mut from = &bytes[..bytes.len() - 1];
        let read = ReceivedBatch::read(&mut from).unwrap();
        assert_eq!((read.epoch, read.rows, read.position), (3, rows, report.position));
        assert!(ReceivedBatch::read(&mut from).is_err(), "it was cut short");
    }
}
