//! One version of a table.

use std::collections::BTreeMap;

use forebay_arrow::array::ArrayRef;
use forebay_arrow::statistics::ColumnStatistics;
use forebay_base::{Error, ErrorKind, Place, Result};

use crate::deletion::DeletionVector;
use crate::partition;
use crate::schema::{Found, TableColumn};

/// The table property that says whether rows have ids that stay the same in later versions.
const TRACKING: &str = "delta.enableRowTracking";

/// The table property with the name of the column that stores row ids.
const ROW_ID_COLUMN: &str = "delta.rowTracking.materializedRowIdColumnName";

/// One version of a table: its columns and its live files.
#[derive(Debug)]
pub struct Table {
    /// The number of the version.
    pub version: u64,
    /// The id of the table, which is the same in all of its versions.
    pub id: String,
    /// The reader version that the table requires.
    pub min_reader_version: i64,
    /// The features that readers must support, by name.
    pub features: Vec<String>,
    /// The columns in order.
    pub columns: Vec<TableColumn>,
    /// How the table's columns are matched with those of the files.
    pub found: Found,
    /// The names of the partition columns in the table, in the order of the values in each partition.
    pub partition_columns: Vec<String>,
    /// For each partition, the values of its columns as texts.
    pub partitions: Vec<Box<[Option<String>]>>,
    /// The properties of the table.
    pub configuration: BTreeMap<String, String>,
    /// The live files, in the order of their paths.
    pub files: Vec<TableFile>,
    /// The statistics of columns by name, if the log has any, with a row for each file in the order of
    /// `files`.
    pub statistics: BTreeMap<String, ColumnStatistics>,
}

/// A file of a table.
#[derive(Debug)]
pub struct TableFile {
    /// The path below the folder of the table.
    pub path: Box<str>,
    /// The size in bytes.
    pub size: u64,
    /// The partition of the file, as an index into the table's partitions.
    pub partition: u32,
    /// The number of rows, including deleted ones, if the log has it.
    pub rows: Option<u64>,
    /// The id of the file's first row, if the table tracks row ids. The ids of the other rows follow it,
    /// unless the file stores ids in the table's [column](Table::row_id_column) for them.
    pub first_row_id: Option<i64>,
    /// The deletion vector of the file, if rows are deleted.
    pub deletion: Option<Box<DeletionVector>>,
    /// The statistics as JSON text. They are kept here only until the whole log was read.
    pub(crate) statistics: Option<Box<str>>,
}

impl Table {
    /// The name of the column in which rewritten files keep the row ids that their rows had before, if the
    /// table tracks row ids. If the column is null, the row's id is the file's first id plus the row's
    /// position.
    pub fn row_id_column(&self) -> Option<&str> {
        let is_tracked = self.configuration.get(TRACKING).is_some_and(|text| text == "true");
        self.configuration.get(ROW_ID_COLUMN).filter(|_| is_tracked).map(String::as_str)
    }

    /// Parses the values of one partition's columns. Each becomes an array of one row.
    ///
    /// # Errors
    /// `Corrupt`, with the column, for a text that is not a value of its type.
    pub fn values(&self, partition: &[Option<String>]) -> Result<Vec<ArrayRef>> {
        let each = self.partition_columns.iter().zip(partition).map(|(name, text)| {
            let column = self.columns.iter().find(|column| column.field.name() == name);
            let value = column.and_then(|column| partition::value(column.field.data_type(), text.as_deref()));
            value.ok_or_else(|| {
                let shown = text.as_ref().map_or_else(|| "null".to_owned(), |text| format!("{text:?}"));
                let cause = format!("the log has the value {shown}, which does not fit the column's type");
                Error::new(ErrorKind::Corrupt, cause).at(Place::default().column(name.as_str()))
            })
        });
        each.collect()
    }

    /// The number of live rows, if the log has the number of rows of each file.
    pub fn rows(&self) -> Option<u64> {
        self.files.iter().try_fold(0u64, |sum, file| {
            let deleted = file.deletion.as_ref().map_or(0, |deletion| deletion.count());
            sum.checked_add(file.rows?.checked_sub(deleted)?)
        })
    }
}
