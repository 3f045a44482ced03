//! Reads row ids from the files of a table that gives its rows ids.

use std::sync::Arc;

use forebay_arrow::array::{Array, AsArray};
use forebay_arrow::datatypes::{DataType, Int64Type};
use forebay_base::{Error, ErrorKind, Place, Result};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::footer::FOOTERS_AT_ONCE;
use super::store::Store;
use super::stored::{self, StoredRows, WantedColumn};
use crate::catalog::{Catalog, IdRuns};
use crate::snapshot::{DataFile, TrackedIds};

impl Store {
    /// Reads the row ids that the files of a table store, unless the catalogue [has row ids
    /// already](Catalog::has_row_ids). It reads the footer of every file, and the column with the ids where
    /// there is one.
    ///
    /// # Errors
    /// The errors of reading a file; `Corrupt` if two rows have the same id.
    pub async fn read_row_ids(&self, catalog: &Catalog) -> Result<()> {
        if catalog.has_row_ids() {
            return Ok(());
        }
        let reads = (0..catalog.files.len()).map(|file| self.stored_ids(catalog, file).boxed());
        let found = stream::iter(reads).buffered(FOOTERS_AT_ONCE).try_collect().await?;
        catalog.set_stored_ids(found)
    }

    /// Reads the ids of all rows of a file; `None` if the file stores no ids.
    async fn stored_ids(&self, catalog: &Catalog, at: usize) -> Result<Option<IdRuns>> {
        let about = &catalog.files[at];
        let Some(TrackedIds { first, column }) = &about.tracked else { return Ok(None) };
        let file =
            DataFile::plain(about.location.clone(), self.address(about), about.volume as usize, about.pin());
        let name = column.columns.iter().map(|column| column.name.clone()).collect::<String>();
        let wanted = [WantedColumn { name: name.clone(), data_type: DataType::Int64 }];
        let (mut runs, mut is_stored, mut row) = (IdRuns::default(), false, 0u32);
        let take = |rows: StoredRows| {
            let [Some(ids)] = rows.columns.as_slice() else { return Ok(()) };
            is_stored = true;
            let ids = ids.as_primitive::<Int64Type>();
            for at in 0..rows.count {
                let id = match ids.is_valid(at) {
                    true => Some(ids.value(at)).filter(|id| *id >= 0),
                    false => first.checked_add(row.into()),
                };
                runs.push(row, id.ok_or_else(|| not_an_id(row, &name))?);
                row += 1;
            }
            Ok(())
        };
        let read = stored::each(self, &file, column, &wanted, take).await;
        read.map_err(|error| error.at(file.place()))?;
        let rows = catalog.rows_of(at);
        if is_stored && u64::from(row) != rows {
            let cause = format!("the table declares {rows} rows, the file has {row}");
            return Err(Error::new(ErrorKind::Corrupt, cause).at(file.place()));
        }
        Ok(is_stored.then_some(runs))
    }
}

fn not_an_id(row: u32, column: &str) -> Error {
    Error::new(ErrorKind::Corrupt, "a row has an id that no row can have")
        .at(Place::default().row(row.into()).column(Arc::<str>::from(column)))
}
