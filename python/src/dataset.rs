//! The data set behind `forebay.Dataset`, which is opened once for any number of loaders.

use std::collections::BTreeMap;

use forebay::arrow::datatypes::{DataType, TimeUnit};
use forebay::plan::SavedFiles;
use forebay::{Dataset as Inner, Error, OpenOptions, RowId};
use forebay_store::source;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::{Place, json, parse_filter, place};
use crate::errors::IntoPython;
use crate::interrupt::interruptible;
use crate::schema::Schema;

/// A data set whose files were found and whose footers were read. A forked child may use this value, and then
/// makes its own connections to the stores.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Dataset {
    dataset: Inner,
    /// The locations with absolute paths, which are valid in a process with another working directory too.
    locations: Vec<String>,
}

/// Returns the library's data set that a Python object of the type `forebay._forebay.Dataset` holds.
pub(crate) fn opened(dataset: &Bound<'_, PyAny>) -> PyResult<Inner> {
    Ok(dataset.cast::<Dataset>()?.get().dataset.clone())
}

#[pymethods]
impl Dataset {
    /// Finds the files and reads their footers, without the interpreter's lock. Leaves out folders in which
    /// the filter, given as JSON, matches no row.
    #[new]
    #[pyo3(signature = (urls, storage_options, filter=None, merge_schema=false, partition_types=BTreeMap::new(),
        index=None, hand_on=false, version=None, timestamp=None, versions=BTreeMap::new(), split=None,
        config=None, only=None))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new(
        py: Python<'_>,
        urls: Vec<String>,
        storage_options: BTreeMap<String, String>,
        filter: Option<&str>,
        merge_schema: bool,
        partition_types: BTreeMap<String, String>,
        index: Option<Vec<u8>>,
        hand_on: bool,
        version: Option<String>,
        timestamp: Option<String>,
        versions: BTreeMap<String, String>,
        split: Option<String>,
        config: Option<String>,
        only: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let filter = filter.map(parse_filter).transpose().or_raise(py)?;
        let types = partition_types.into_iter().map(|(key, name)| Ok((key, partition_type(&name)?)));
        let types: Vec<(String, DataType)> = types.collect::<forebay::Result<_>>().or_raise(py)?;
        interruptible(py, move || {
            let locations = urls.iter().map(|url| source::absolute(url)).collect::<forebay::Result<_>>()?;
            let mut options = OpenOptions::new().storage_options(storage_options).merge_schema(merge_schema);
            options =
                options.hand_on(hand_on).as_of(version.as_deref(), timestamp.as_deref())?.opened_as(versions);
            if let Some(index) = index {
                options = options.index(index);
            }
            if let Some(filter) = filter {
                options = options.folders(filter);
            }
            if let Some(only) = only {
                options = options.files(only);
            }
            if let Some(split) = split {
                options = options.split(split);
            }
            if let Some(config) = config {
                options = options.config(config);
            }
            for (key, data_type) in types {
                options = options.partition_type(key, data_type);
            }
            Ok(Dataset { dataset: options.open(urls)?, locations })
        })
    }

    /// The locations as they were given, with absolute paths.
    fn locations(&self) -> Vec<String> {
        self.locations.clone()
    }

    /// Ends the threads of a data set that a loader opened for itself, once the loader has ended.
    fn release(&self) {
        self.dataset.release();
    }

    /// Writes the index of each opened folder, and returns the contents of each index as JSON.
    fn write_index(&self, py: Python<'_>) -> PyResult<String> {
        let dataset = self.dataset.clone();
        let written = interruptible(py, move || dataset.write_index())?;
        json(&written).or_raise(py)
    }

    /// The footers of the files as bytes, which other processes pass as `index` instead of reading the
    /// footers.
    fn index<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let dataset = self.dataset.clone();
        let bytes = interruptible(py, move || dataset.index())?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Returns a warning that was not returned before; `None` if there is none.
    fn take_warning(&self) -> Option<String> {
        self.dataset.take_warning()
    }

    /// Number of rows in all files.
    fn rows(&self) -> u64 {
        self.dataset.rows()
    }

    /// Number of files.
    fn files(&self) -> usize {
        self.dataset.catalog().files.len()
    }

    /// Number of row groups that hold rows.
    fn row_groups(&self) -> usize {
        self.dataset.catalog().groups.len()
    }

    /// The path of each file that holds rows, relative to the location that was opened, and the rows of each
    /// of its row groups without those that a table has deleted. A file with deleted rows has a
    /// single number, for all of its row groups together.
    fn layout(&self) -> Vec<(String, Vec<u64>)> {
        let catalog = self.dataset.catalog();
        let mut files: Vec<(usize, Vec<u64>)> = Vec::new();
        for group in &catalog.groups {
            match files.last_mut() {
                Some((file, groups)) if *file == group.file => groups.push(group.rows),
                _ => files.push((group.file, vec![group.rows])),
            }
        }
        let live = files.into_iter().map(|(file, groups)| {
            let about = &catalog.files[file];
            let groups = match &about.deleted {
                Some(deleted) => vec![groups.iter().sum::<u64>() - u64::from(deleted.count())],
                None => groups,
            };
            (about.relative.to_string(), groups)
        });
        live.filter(|(_, groups)| groups.iter().any(|rows| *rows > 0)).collect()
    }

    /// The paths of all files, relative to the location that was opened.
    fn paths(&self) -> Vec<String> {
        self.dataset.catalog().files.iter().map(|file| file.relative.to_string()).collect()
    }

    /// The paths of the files with which a state was saved, if files were only added since. `saved` is the
    /// part of the state about its files, as JSON.
    fn earlier_files(&self, py: Python<'_>, saved: &str) -> PyResult<Option<Vec<String>>> {
        let saved: SavedFiles = serde_json::from_str(saved)
            .map_err(|error| Error::invalid(format!("the files in the state are malformed: {error}")))
            .or_raise(py)?;
        Ok(py.detach(|| self.dataset.earlier_files(&saved)))
    }

    /// Names and types of the stored columns.
    fn schema(&self) -> Schema {
        Schema::new(self.dataset.catalog().schema.clone())
    }

    /// Key-value metadata of the first file.
    fn metadata(&self) -> BTreeMap<String, String> {
        let metadata = self.dataset.catalog().schema.metadata();
        metadata.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// The names of classes by column, and for each column whose files disagree on them the error.
    fn classes(&self) -> (BTreeMap<String, Vec<String>>, BTreeMap<String, String>) {
        let classes = &self.dataset.catalog().classes;
        let names = classes.by_column().map(|(column, names)| (column.to_owned(), names.to_vec()));
        let refused = classes.refused().map(|(column, error)| (column.to_owned(), error.to_string()));
        (names.collect(), refused.collect())
    }

    /// The version of the table, if the data set is a single table.
    fn version(&self) -> Option<u64> {
        match self.dataset.tables() {
            [table] => Some(table.version),
            _ => None,
        }
    }

    /// Returns the location and the identity of each table, and the text with which the same version can be
    /// opened again. The tables are in the order of the locations.
    fn tables(&self) -> Vec<(String, String, String)> {
        let tables = self.dataset.tables().iter();
        tables.map(|table| (table.location.to_string(), table.id.to_string(), table.opened_as())).collect()
    }

    /// Returns the newest versions of the tables by their locations, if they differ from the open ones.
    fn newest_versions(&self, py: Python<'_>) -> PyResult<Option<BTreeMap<String, u64>>> {
        let dataset = self.dataset.clone();
        interruptible(py, move || dataset.newest_versions())
    }

    /// Whether files store ids of their rows. Such ids may have gaps.
    fn stores_row_ids(&self, py: Python<'_>) -> PyResult<bool> {
        py.detach(|| self.dataset.stores_row_ids()).or_raise(py)
    }

    /// The place where the row with this id is stored.
    fn row(&self, py: Python<'_>, id: i64) -> PyResult<Option<Place>> {
        let row = py.detach(|| self.dataset.row(RowId::new(id)));
        Ok(row.or_raise(py)?.map(place))
    }

    /// The identity of the data set, which does not depend on where it is stored.
    fn fingerprint(&self) -> String {
        self.dataset.catalog().fingerprint.to_string()
    }
}

/// Translates pyiceberg's settings for the files of a table into the options of a store.
#[pyfunction]
pub(crate) fn store_options(location: &str, settings: BTreeMap<String, String>) -> BTreeMap<String, String> {
    source::store_options(location, &settings)
}

/// Returns the type that numpy or pyarrow calls `name`.
fn partition_type(name: &str) -> forebay::Result<DataType> {
    Ok(match name {
        "string" | "large_string" | "string_view" | "str" => DataType::Utf8View,
        "int8" => DataType::Int8,
        "int16" => DataType::Int16,
        "int32" => DataType::Int32,
        "int64" => DataType::Int64,
        "uint8" => DataType::UInt8,
        "uint16" => DataType::UInt16,
        "uint32" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        "float" | "float32" => DataType::Float32,
        "double" | "float64" => DataType::Float64,
        "bool" => DataType::Boolean,
        "date" | "date32" | "date32[day]" => DataType::Date32,
        "timestamp" | "timestamp[us]" => DataType::Timestamp(TimeUnit::Microsecond, None),
        other => {
            let error = Error::invalid(format!("a folder's key has no type {other:?}"));
            return Err(error.hint("write string, int8 to uint64, float32, float64, bool, date or timestamp"));
        }
    })
}
