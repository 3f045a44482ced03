//! Table formats whose tables are recognised but cannot be read: Hudi and Lance, and Delta and Iceberg if
//! their cargo features are off.

use std::future::ready;

use forebay_base::Result;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::format::{Sign, TableFolder, TableFormat, refusal};
use crate::snapshot::Snapshot;

#[cfg(not(feature = "delta"))]
pub(super) const DELTA: Refused =
    Refused(Sign { format: "Delta", folder: "_delta_log", suffix: None, holds_parquet: true });
pub(super) const HUDI: Refused =
    Refused(Sign { format: "Hudi", folder: ".hoodie", suffix: None, holds_parquet: true });
#[cfg(not(feature = "iceberg"))]
pub(super) const ICEBERG: Refused = Refused(Sign {
    format: "Iceberg",
    folder: "metadata",
    suffix: Some(".metadata.json"),
    holds_parquet: true,
});
pub(super) const LANCE: Refused =
    Refused(Sign { format: "Lance", folder: "_versions", suffix: Some(".manifest"), holds_parquet: false });

/// A table format that cannot be read. Opening a table of it fails, instead of reading its files as plain
/// Parquet.
pub(super) struct Refused(Sign);

impl TableFormat for Refused {
    fn sign(&self) -> &Sign {
        &self.0
    }

    fn snapshot<'a>(&'a self, table: &'a TableFolder<'a>) -> BoxFuture<'a, Result<Snapshot>> {
        ready(Err(refusal(self, table.place()))).boxed()
    }

    fn advice(&self) -> String {
        format!(
            "write the table's rows to plain Parquet with an engine that reads {}, such as Spark, and open that",
            self.0.format
        )
    }
}
