//! `--check-order` and `--classes-of`: check that every row is delivered once, and measure how well rows are
//! mixed.
//!
//! The check is a separate pass after the run, so that it costs the measurement nothing. It reads epoch 0 in
//! the measured order, without decoding images, and hashes every row; then one rank reads all rows as they
//! are stored. The loader's own tests check that two passes of an epoch deliver the same rows.

use std::collections::HashMap;
use std::fmt;

use arrow_row::{RowConverter, SortField};
use forebay::plan::expected_distinct;
use forebay::{Loader, Shard};
use forebay_arrow::array::{Array, RecordBatch};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, Result};
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use super::args::Args;
use super::order::{Deliveries, matched};
use crate::console::Console;
use crate::options::Order;
use crate::units::{count, counted};

/// The results of the checks.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OrderCheck {
    /// The check of rows, with `--check-order`.
    pub(super) rows: Option<RowCheck>,
    /// The check of classes, with `--classes-of`.
    pub(super) classes: Option<ClassCheck>,
}

/// How often rows were delivered, and how well they were mixed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RowCheck {
    pub(super) stored: u64,
    #[serde(flatten)]
    pub(super) delivered: Deliveries,
    /// The number of rows that the plan repeats to keep ranks equal.
    pub(super) planned_twice: u64,
    /// The number of rows that the plan leaves out.
    pub(super) planned_never: u64,
    pub(super) as_planned: bool,
    /// χ² per degree of freedom: about 1 for a uniform permutation, and larger the more of the stored order
    /// is left.
    pub(super) chi2_per_degree_of_freedom: Option<f64>,
}

/// How many different values of a column a batch has.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ClassCheck {
    pub(super) column: String,
    /// The number of different values in the whole epoch.
    pub(super) classes: u64,
    pub(super) mean_per_batch: f64,
    pub(super) min_per_batch: u64,
    /// The mean that is expected if each batch is drawn uniformly from all rows.
    pub(super) expected_per_batch: f64,
}

/// Runs the requested checks.
pub(super) fn check(args: &Args, console: &Console) -> Result<Option<OrderCheck>> {
    if !args.check_order && args.classes_of.is_none() {
        return Ok(None);
    }
    // Images stay encoded, because rows can be compared without their pixels.
    let mut undecoded = args.clone();
    undecoded.loader.decode_nothing();
    let loaders = undecoded.loaders(Some(1))?;
    let mut census = args
        .classes_of
        .as_deref()
        .map(|column| Census::new(column, args.loader.batch_size, &loaders))
        .transpose()?;
    let mut digests = Vec::new();
    let steps = loaders.first().map_or(0, Loader::len);
    let mut progress = console.progress("checking the order", "steps", steps);
    // Reads rank by rank within each step, which is the order of the epoch.
    let mut epochs: Vec<_> = loaders.iter().map(|loader| loader.epoch(0)).collect();
    for _ in 0..steps {
        for epoch in &mut epochs {
            let Some(batch) = epoch.next().transpose()? else { continue };
            if let Some(census) = &mut census {
                census.count(&batch)?;
            }
            if args.check_order {
                digests.extend(rows(&batch)?.iter().map(|row| xxh3_64(row.as_ref())));
            }
        }
        progress.advance(1);
    }
    drop(progress);
    let classes = census.map(|census| census.conclude());
    let rows = args.check_order.then(|| compare(&undecoded, &loaders, &digests, console)).transpose()?;
    Ok(Some(OrderCheck { rows, classes }))
}

/// Reads all rows as they are stored, and finds the `delivered` ones among them.
fn compare(args: &Args, loaders: &[Loader], delivered: &[u64], console: &Console) -> Result<RowCheck> {
    let mut options = args.loader.clone();
    (options.order, options.lanes) = (Order::Stored, None);
    (options.window_rows, options.piece_rows) = (None, None);
    (options.drop_last, options.cache, options.cache_bytes) = (false, None, None);
    let stored =
        options.open()?.loader().spec(options.spec(Shard::default())).threads(args.threads_each()).build()?;
    let mut progress = console.progress("reading as stored", "steps", stored.len());
    let mut digests = Vec::new();
    for batch in stored.epoch(0) {
        digests.extend(rows(&batch?)?.iter().map(|row| xxh3_64(row.as_ref())));
        progress.advance(1);
    }
    let plans = loaders.iter().map(|loader| loader.plan(0)).collect::<Result<Vec<_>>>()?;
    let reads = || plans.iter().filter_map(|plan| plan.reads.as_ref());
    let planned_twice = reads().map(|reads| reads.padded).sum();
    let planned_never = reads().next().map_or(0, |reads| reads.dropped);
    let matched = matched(&digests, delivered);
    let found = matched.deliveries();
    let handed_over = delivered.len() as u64;
    Ok(RowCheck {
        stored: digests.len() as u64,
        delivered: found,
        planned_twice,
        planned_never,
        as_planned: found.unknown == 0
            && found.never == planned_never
            && handed_over + planned_never == digests.len() as u64 + planned_twice,
        chi2_per_degree_of_freedom: matched.chi_squared(),
    })
}

/// The rows of `batch` as bytes, which are equal if and only if the rows are.
fn rows(batch: &RecordBatch) -> Result<arrow_row::Rows> {
    let fields = batch.columns().iter().map(|column| SortField::new(column.data_type().clone())).collect();
    RowConverter::new(fields).or_fail()?.convert_columns(batch.columns()).or_fail()
}

/// Counts the classes of an epoch and of its batches.
struct Census {
    column: String,
    batch_size: u64,
    rows_of: HashMap<Box<[u8]>, u64>,
    per_batch: Vec<u64>,
}

impl Census {
    fn new(column: &str, batch_size: u64, loaders: &[Loader]) -> Result<Self> {
        let known = loaders.iter().all(|loader| loader.schema().index_of(column).is_ok());
        if !known {
            return Err(Error::invalid(format!("--classes-of {column}: the loader reads no such column"))
                .hint("name a column of the data set, and of --columns where that is given"));
        }
        Ok(Census { column: column.to_owned(), batch_size, rows_of: HashMap::new(), per_batch: Vec::new() })
    }

    fn count(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = rows(&batch.project(&[batch.schema().index_of(&self.column).or_fail()?]).or_fail()?)?;
        let mut values: Vec<&[u8]> = (0..rows.num_rows()).map(|row| rows.row(row).data()).collect();
        values.sort_unstable();
        let mut classes = 0;
        for alike in values.chunk_by(|a, b| a == b) {
            classes += 1;
            *self.rows_of.entry(alike[0].into()).or_default() += alike.len() as u64;
        }
        // The last batch of an epoch may be short, so it says little about mixing.
        if batch.num_rows() as u64 >= self.batch_size || self.per_batch.is_empty() {
            self.per_batch.push(classes);
        }
        Ok(())
    }

    fn conclude(self) -> ClassCheck {
        let rows: u64 = self.rows_of.values().sum();
        let batches = self.per_batch.len().max(1) as f64;
        ClassCheck {
            classes: self.rows_of.len() as u64,
            mean_per_batch: self.per_batch.iter().sum::<u64>() as f64 / batches,
            min_per_batch: self.per_batch.iter().copied().min().unwrap_or(0),
            expected_per_batch: expected_distinct(
                self.rows_of.values().copied(),
                rows,
                self.batch_size.min(rows),
            ),
            column: self.column,
        }
    }
}

impl fmt::Display for OrderCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rows) = &self.rows {
            let Deliveries { once, twice, never, unknown } = rows.delivered;
            write!(
                f,
                "order           {} once, {} twice, {} never",
                counted(once, "row"),
                count(twice),
                count(never)
            )?;
            if unknown > 0 {
                write!(f, ", {} that are not stored", count(unknown))?;
            }
            f.write_str(if rows.as_planned { ", as planned" } else { ", and that is NOT as planned" })?;
            if let Some(chi) = rows.chi2_per_degree_of_freedom {
                write!(f, "; χ² per degree of freedom {chi:.2}, of a uniform permutation 1")?;
            }
        }
        if let Some(classes) = &self.classes {
            if self.rows.is_some() {
                writeln!(f)?;
            }
            write!(
                f,
                "classes         {:.1} in a batch, {} at least, of {} of {:?}; {:.1} if drawn uniformly",
                classes.mean_per_batch,
                count(classes.min_per_batch),
                count(classes.classes),
                classes.column,
                classes.expected_per_batch
            )?;
        }
        Ok(())
    }
}
