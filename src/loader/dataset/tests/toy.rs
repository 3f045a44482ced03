//! A toy table format, defined as another crate would do it. The list of a table's files is one file,
//! `_toy/table.json`.

use std::sync::Arc;

use forebay_arrow::array::{ArrayRef, StringViewArray};
use forebay_arrow::datatypes::{DataType, Field, Schema};
use forebay_base::{Error, ErrorKind, Result};
use forebay_store::row_set::RowSet;
use forebay_store::snapshot::{Constant, Snapshot};
use forebay_store::source::{Sign, TableFolder, TableFormat};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;

const PATH: &str = "_toy/table.json";

const SIGN: Sign = Sign { format: "toy", folder: "_toy", suffix: Some("table.json"), holds_parquet: true };

pub(super) struct Toy;

/// The content of the list.
#[derive(Deserialize)]
struct List {
    version: u64,
    files: Vec<Member>,
}

#[derive(Deserialize)]
struct Member {
    path: String,
    /// The value of the column `split` in all rows of the file.
    split: String,
    /// The numbers of the deleted rows in the file, ascending.
    deleted: Vec<u32>,
    rows: Option<u64>,
    /// The columns with their types: `long` or `string`.
    columns: Option<Vec<(String, String)>>,
}

impl TableFormat for Toy {
    fn sign(&self) -> &Sign {
        &SIGN
    }

    fn snapshot<'a>(&'a self, table: &'a TableFolder<'a>) -> BoxFuture<'a, Result<Snapshot>> {
        async move {
            let list: List = serde_json::from_slice(&table.read(PATH).await?).map_err(|error| {
                Error::new(ErrorKind::Corrupt, format!("{PATH}: {error}")).at(table.place())
            })?;
            let mut snapshot = Snapshot::default();
            for member in list.files {
                let mut file = table.file(&member.path).await?;
                snapshot.root =
                    file.whole.strip_suffix(&member.path).unwrap_or_default().trim_end_matches('/').into();
                let split: ArrayRef = Arc::new(StringViewArray::from(vec![member.split.as_str()]));
                let field = Arc::new(Field::new("split", DataType::Utf8View, false));
                file.constants = Arc::new([Constant { field, value: split }]);
                let past_last = member.deleted.last().map_or(0, |last| last + 1);
                let deleted = member.deleted.iter().map(|&row| row..row + 1);
                file.deleted = (past_last > 0).then(|| RowSet::from_runs(past_last, deleted));
                file.rows = member.rows;
                file.schema = member.columns.map(|columns| {
                    let fields = columns.into_iter().map(|(name, of_type)| match of_type.as_str() {
                        "long" => Field::new(name, DataType::Int64, true),
                        _ => Field::new(name, DataType::Utf8View, true),
                    });
                    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
                });
                snapshot.files.push(file);
            }
            snapshot.identities.push(format!("toy version {}", list.version).into());
            Ok(snapshot)
        }
        .boxed()
    }
}
