//! Checks of numbers in the options that are wrong whatever the data set.

use forebay_base::{Error, Result};

use super::LoaderBuilder;
use super::mixing::of_mixes;
use super::places::of_column;
use crate::loader::machine::processors;
use crate::loader::spec::LoaderSpec;
use crate::samples::{Across, Samples};
use crate::shard::OrderSpec;

/// Checks the numbers that apply both to a loader of one data set and to a mix.
pub(super) fn check_run(spec: &LoaderSpec) -> Result<()> {
    let world = u64::from(spec.shard.world());
    let of_a_rank = match spec.global_batch_size {
        Some(rows) if rows < world => {
            let cause = format!("global_batch_size is {rows}, for {world} ranks");
            return Err(Error::invalid(cause).hint("a step needs at least one row for each rank"));
        }
        Some(rows) => rows.div_ceil(world),
        None if spec.batch_size == 0 => {
            return Err(Error::invalid("batch_size is 0").hint("give at least 1 row"));
        }
        None => spec.batch_size,
    };
    if of_a_rank > u64::from(u32::MAX) {
        let given = match spec.global_batch_size {
            Some(rows) => format!("global_batch_size is {rows}: {of_a_rank} rows for a rank"),
            None => format!("batch_size is {of_a_rank}"),
        };
        return Err(Error::invalid(given).hint("a batch has up to 2^32 - 1 rows"));
    }
    if let Some(threads) = spec.threads.filter(|threads| *threads > LoaderSpec::MAX_THREADS) {
        let hint =
            format!("up to {}; this process may use {} processors", LoaderSpec::MAX_THREADS, processors());
        return Err(Error::invalid(format!("threads is {threads}")).hint(hint));
    }
    if spec.threads == Some(0) {
        return Err(Error::invalid("threads is 0").hint("leave out `threads` to use all processors"));
    }
    if spec.epochs == Some(0) {
        return Err(Error::invalid("epochs is 0").hint("leave it out if the number is unknown"));
    }
    if spec.memory == Some(0) {
        return Err(Error::invalid("memory is 0").hint("give a budget in bytes"));
    }
    Ok(())
}

impl LoaderBuilder {
    pub(super) fn check_numbers(&self) -> Result<()> {
        let spec = &self.spec;
        check_run(spec)?;
        if let Some(name) = of_mixes(spec) {
            return Err(Error::invalid(format!("`{name}` was given, with a single data set"))
                .hint("mix several with `Loader::mix`, or leave it out"));
        }
        if spec.shuffle.piece_rows.is_some() && !spec.samples.are_rows() {
            return Err(Error::invalid(
                "`piece_rows` was given, with samples that have several rows or are drawn",
            )
            .hint("leave it out: the rows of a sample may be in two pieces"));
        }
        spec.shuffle.validate()?;
        self.check_balance()
    }

    pub(super) fn check_rows(&self, rows: u64, order: &OrderSpec) -> Result<()> {
        if let (0, Samples::Windows(window)) = (rows, &self.spec.samples) {
            let (place, hint) = match window.across_borders() {
                Across::RowGroup => {
                    ("row group", "set `across` to the file, use shorter windows or a larger `gap`")
                }
                Across::File => {
                    ("file", "set `across` to the data set, use shorter windows or a larger `gap`")
                }
                Across::Dataset => ("sequence of files", "use shorter windows or a larger `gap`"),
            };
            let cause = format!("no {place} has {} rows that make a window", window.length());
            let within = match window.within_column().is_some() {
                true => "; the rows of a window have one value in the column `within`",
                false => "",
            };
            return Err(Error::invalid(cause).hint(format!("{hint}{within}")));
        }
        if let (0, Samples::Packs(pack)) = (rows, &self.spec.samples) {
            return Err(Error::invalid("all lists are empty or left out, so there is nothing to pack")
                .hint("pack another column, or write lists with values: a list that is null is a bad row")
                .at(of_column(pack.columns().first().map_or("", String::as_str))));
        }
        if rows == 0 {
            let error = Error::invalid("no row is selected");
            return Err(match self.spec.filter {
                Some(_) => error.hint("the filter matches nothing"),
                None if !self.spec.deny.is_empty() => error.hint("`deny` leaves out all rows"),
                None => error.hint("the data set is empty: check its location, or wait for rows"),
            });
        }
        let noun = if self.spec.samples.are_rows() { "rows" } else { "samples" };
        let global = self.spec.global_batch();
        if self.spec.drop_last && rows < global {
            return Err(Error::invalid(format!(
                "{rows} {noun} do not fill one step of {global}, and drop_last drops the rest"
            ))
            .hint("use smaller batches, or leave out `drop_last`"));
        }
        if rows < u64::from(order.lanes()) {
            let lanes = order.lanes();
            let need = if lanes == 1 { "1 lane needs".to_owned() } else { format!("{lanes} lanes need") };
            let by_default = match self.spec.shuffle.lanes {
                Some(_) => "",
                None => "by default there is a lane for each rank: ",
            };
            let fewer = if rows == 1 { "" } else { ", and so do fewer" };
            return Err(Error::invalid(format!("{need} at least {lanes} {noun}; the selection has {rows}"))
                .hint(format!("{by_default}`lanes={rows}` fits{fewer}")));
        }
        Ok(())
    }
}
