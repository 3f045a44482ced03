//! One rank, in a process of its own: reads its share, and reports each batch to the process that started it.

use std::io::{self, BufWriter, Read, Write};
use std::time::Duration;

use arrow_row::{RowConverter, SortField};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::arrow::array::{AsArray, RecordBatch};
use crate::arrow::datatypes::Int64Type;
use crate::cli::location::parse_options;
use crate::error::{Foreign, OrFail};
use crate::{Dataset, Error, ErrorKind, LoaderSpec, Position, Result, Wait};

/// The column that the loader adds.
const ROW_ID: &str = "row_id";

/// As long as it takes: whoever started this rank ends it.
const PATIENCE: Duration = Duration::from_hours(24);

/// What a rank is told, on its standard input: locations may hold secrets.
#[derive(Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) locations: Vec<String>,
    pub(super) storage_options: Vec<String>,
    pub(super) spec: LoaderSpec,
    pub(super) position: Option<Position>,
    pub(super) epochs: u64,
}

/// A row that came: its number, and a hash of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) hash: u64,
}

/// A batch that a rank received.
pub(super) struct Report {
    pub(super) epoch: u64,
    pub(super) rows: Vec<Row>,
    /// The position of the rank after it, as JSON.
    pub(super) position: String,
}

/// Runs a rank to the end of its epochs.
pub(crate) fn run() -> Result<()> {
    let told = io::read_to_string(io::stdin()).map_err(Foreign::into_error)?;
    let job: Job = serde_json::from_str(&told)
        .map_err(|_| Error::invalid("verify-rank is a part of verify").hint("run `forebay verify`"))?;
    let dataset = Dataset::open_with_options(job.locations, &parse_options(&job.storage_options)?)?;
    let loader = dataset.loader().spec(job.spec).build()?;
    if let Some(position) = &job.position {
        loader.restore(position)?;
    }
    let mut out = BufWriter::new(io::stdout().lock());
    while loader.position().epoch < job.epochs {
        let mut epoch = loader.next_epoch();
        let number = epoch.number();
        loop {
            match epoch.next_step(PATIENCE) {
                Wait::Step(step) => {
                    let step = step?;
                    loader.handed_over(&step.after);
                    let position = serde_json::to_string(&loader.position()).map_err(internal)?;
                    let report = Report { epoch: number, rows: rows(&step.batch)?, position };
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

/// The rows of a batch that has row ids.
pub(super) fn rows(batch: &RecordBatch) -> Result<Vec<Row>> {
    let at = batch.schema().index_of(ROW_ID).or_fail()?;
    let ids = batch.column(at).as_primitive::<Int64Type>();
    let mut values = batch.columns().to_vec();
    values.remove(at);
    let fields = values.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let bytes = RowConverter::new(fields).or_fail()?.convert_columns(&values).or_fail()?;
    let rows = ids.values().iter().zip(&bytes).map(|(&id, bytes)| Row { id, hash: xxh3_64(bytes.as_ref()) });
    Ok(rows.collect())
}

impl Report {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for number in [self.epoch, self.rows.len() as u64, self.position.len() as u64] {
            out.write_all(&number.to_le_bytes())?;
        }
        out.write_all(self.position.as_bytes())?;
        for row in &self.rows {
            out.write_all(&row.id.to_le_bytes())?;
            out.write_all(&row.hash.to_le_bytes())?;
        }
        Ok(())
    }

    /// The next report of a rank. Fails where the rank has ended.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Report> {
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
        let rows =
            (0..rows).map(|_| Ok(Row { id: i64::from_le_bytes(word()?), hash: u64::from_le_bytes(word()?) }));
        let rows = rows.collect::<io::Result<_>>()?;
        Ok(Report { epoch, rows, position: String::from_utf8_lossy(&position).into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let rows = vec![Row { id: -5, hash: u64::MAX }, Row { id: i64::MAX, hash: 0 }];
        let report = Report { epoch: 3, rows: rows.clone(), position: r#"{"epoch":3}"#.into() };
        let mut bytes = Vec::new();
        report.write(&mut bytes).unwrap();
        report.write(&mut bytes).unwrap();
        let mut from = &bytes[..bytes.len() - 1];
        let read = Report::read(&mut from).unwrap();
        assert_eq!((read.epoch, read.rows, read.position), (3, rows, report.position));
        assert!(Report::read(&mut from).is_err(), "it was cut short");
    }
}
