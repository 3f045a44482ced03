//! Collects the size, type, codecs and encodings of each column from the footers of all files.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use forebay::repack::is_packed;
use forebay_arrow::datatypes::{DataType, Field};
use forebay_arrow::names::TypeName;
use forebay_arrow::vectors::SparkMl;
use forebay_base::error::escaped;
use forebay_store::catalog::Catalog;
use parquet::basic::Encoding;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use serde::Serialize;

use super::pages;
use crate::units::{bytes, percent};

/// The text that is shown as the codec of a column whose values come from folder names, such as `year=2024`.
const FOLDERS: &str = "folders";

/// The text that is shown as the type of a column that `forebay pack` wrote.
const COEFFICIENTS: &str = "JPEG coefficients";

/// The end of the path of the leaf that stores the type of a Spark ML vector. This leaf has exactly one value
/// for each vector.
const VECTOR_TYPE: &str = ".type";

/// One leaf column (a primitive column of the Parquet schema). The leaves of a Spark ML vector count as one
/// column.
#[derive(Serialize)]
pub(super) struct LeafColumn {
    /// The path of the leaf: the column's name, followed by the names inside a nested column.
    pub(super) name: String,
    /// The type that batches deliver.
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) nullable: bool,
    /// Whether the values are binary, or bytes in Hugging Face's image struct, and so are likely encoded
    /// images.
    #[serde(skip)]
    pub(super) binary: bool,
    #[serde(skip)]
    is_vector: bool,
    pub(super) stored_bytes: u64,
    pub(super) uncompressed_bytes: u64,
    pub(super) values: u64,
    pub(super) codecs: BTreeSet<String>,
    pub(super) encodings: BTreeSet<String>,
    /// Whether all chunks have an offset index, which says where each page begins.
    pub(super) page_index: bool,
    /// The size of the column's largest page in the first file, if that file has a page index.
    pub(super) largest_page_bytes: Option<u64>,
}

impl LeafColumn {
    /// The mean size of a stored value, in bytes.
    pub(super) fn mean_value(&self) -> u64 {
        self.stored_bytes / self.values.max(1)
    }

    pub(super) fn is_compressed(&self) -> bool {
        self.codecs.iter().any(|codec| codec != "uncompressed")
    }

    pub(super) fn has_dictionary(&self) -> bool {
        self.encodings.iter().any(|encoding| encoding.contains("dictionary"))
    }
}

/// The sums over the footers of all files.
#[derive(Default)]
pub(super) struct FooterTotals {
    /// All leaf columns, in the order of the first file.
    pub(super) columns: Vec<LeafColumn>,
    /// For each file, the number of row groups that are not empty.
    pub(super) groups: Vec<u64>,
    /// The number of rows in each row group that is not empty.
    pub(super) group_rows: Vec<u64>,
    /// The stored bytes of each row group that is not empty.
    pub(super) group_bytes: Vec<u64>,
    /// The programs that wrote the files.
    pub(super) written_by: BTreeSet<String>,
}

impl FooterTotals {
    /// Adds the footer of a file.
    pub(super) fn add(&mut self, catalog: &Catalog, file: usize, footer: &ParquetMetaData) {
        if file == 0 {
            self.columns = of_first(catalog, footer);
        }
        for chunk in footer.row_groups().iter().flat_map(|group| group.columns()) {
            // Files may order their columns differently.
            let name = chunk.column_path().string();
            if let Some(column) = self.columns.iter_mut().find(|column| column.has(&name)) {
                column.add(&name, chunk);
            }
        }
        let stored = footer.row_groups().iter().filter(|group| group.num_rows() > 0);
        let bytes =
            |group: &RowGroupMetaData| group.columns().iter().map(|chunk| chunk.byte_range().1).sum::<u64>();
        self.group_rows.extend(stored.clone().map(|group| group.num_rows().cast_unsigned()));
        self.groups.push(stored.clone().count() as u64);
        self.group_bytes.extend(stored.map(bytes));
        let writer = footer.file_metadata().created_by();
        self.written_by.insert(writer.map_or("unknown", str::trim).to_owned());
    }
}

/// The leaf columns of the first file, with their sizes and counts still 0.
fn of_first(catalog: &Catalog, footer: &ParquetMetaData) -> Vec<LeafColumn> {
    let pages = pages::largest(&catalog.files[0], footer);
    let empty = |name: String, kind: String, nullable: bool| LeafColumn {
        name,
        kind,
        nullable,
        binary: false,
        is_vector: false,
        stored_bytes: 0,
        uncompressed_bytes: 0,
        values: 0,
        codecs: BTreeSet::new(),
        encodings: BTreeSet::new(),
        page_index: true,
        largest_page_bytes: None,
    };
    let leaves = footer.file_metadata().schema_descr().columns().iter().enumerate();
    let stored = leaves.map(|(leaf, descriptor)| {
        let parts = descriptor.path().parts();
        let field = parts.first().and_then(|root| catalog.schema.field_with_name(root).ok());
        if let Some(vector) = field.and_then(|field| vector_in(field, parts)) {
            let kind = SparkMl::Vector.name().to_owned();
            return LeafColumn {
                is_vector: true,
                largest_page_bytes: pages.get(leaf).copied().flatten(),
                ..empty(parts[..vector].join("."), kind, field.is_some_and(Field::is_nullable))
            };
        }
        let kind =
            field.map_or_else(|| descriptor.physical_type().to_string(), |field| delivered(field, parts));
        LeafColumn {
            binary: field.is_some_and(|field| is_binary(field, parts)),
            largest_page_bytes: pages.get(leaf).copied().flatten(),
            ..empty(descriptor.path().string(), kind, field.is_some_and(Field::is_nullable))
        }
    });
    // Columns with a constant value, such as keys of folders, are not in the files, so they are added here.
    let constants = catalog.files[0].constants.iter().map(|constant| {
        let field = &constant.field;
        let codecs = BTreeSet::from([FOLDERS.to_owned()]);
        LeafColumn {
            codecs,
            ..empty(field.name().clone(), TypeName(field.data_type()).to_string(), field.is_nullable())
        }
    });
    let mut columns: Vec<LeafColumn> = Vec::new();
    for column in stored {
        match columns.last_mut() {
            Some(last) if last.is_vector && column.is_vector && last.name == column.name => {
                last.largest_page_bytes = last.largest_page_bytes.max(column.largest_page_bytes);
            }
            _ => columns.push(column),
        }
    }
    columns.extend(constants);
    columns
}

impl LeafColumn {
    /// Whether the leaf with the path `leaf` belongs to this column.
    fn has(&self, leaf: &str) -> bool {
        match leaf.strip_prefix(&self.name) {
            Some("") => true,
            Some(rest) => self.is_vector && rest.starts_with('.'),
            None => false,
        }
    }

    fn add(&mut self, leaf: &str, chunk: &ColumnChunkMetaData) {
        self.stored_bytes += chunk.byte_range().1;
        self.uncompressed_bytes += chunk.uncompressed_size().max(0) as u64;
        // Only the leaf of a vector's type has exactly one value for each vector.
        if !self.is_vector || leaf[self.name.len()..] == *VECTOR_TYPE {
            self.values += chunk.num_values().max(0) as u64;
        }
        let codec = chunk.compression().to_string().to_lowercase();
        // A codec is written like "zstd(zstdlevel(1))", and the level does not matter here.
        self.codecs.insert(codec.split('(').next().unwrap_or_default().to_owned());
        self.encodings.extend(chunk.encodings().map(spell));
        self.page_index &= chunk.offset_index_offset().is_some();
    }
}

fn spell(encoding: Encoding) -> String {
    encoding.to_string().to_lowercase().replace('_', " ")
}

/// Finds the Spark ML vector that a leaf belongs to, and returns how many parts of the leaf's path name the
/// vector; `None` if the leaf belongs to no vector.
fn vector_in(field: &Field, parts: &[String]) -> Option<usize> {
    let mut data_type = field.data_type();
    for (depth, part) in parts.iter().enumerate().skip(1) {
        if SparkMl::from_type(data_type) == Some(SparkMl::Vector) {
            return Some(depth);
        }
        let DataType::Struct(fields) = data_type else { return None };
        data_type = fields.iter().find(|inner| inner.name() == part)?.data_type();
    }
    None
}

/// The type that batches deliver for the column of a leaf.
fn delivered(field: &Field, parts: &[String]) -> String {
    match field.data_type() {
        DataType::Struct(fields) if parts.len() > 1 && SparkMl::from_type(field.data_type()).is_none() => {
            let inner = fields.iter().find(|inner| inner.name() == &parts[1]);
            inner.map_or_else(|| TypeName(field.data_type()).to_string(), |inner| named(inner))
        }
        _ => named(field),
    }
}

/// The name of a field's type. For columns that `forebay pack` wrote it names the content, not the stored
/// type.
fn named(field: &Field) -> String {
    match is_packed(field) {
        Ok(false) => TypeName(field.data_type()).to_string(),
        Ok(true) => COEFFICIENTS.into(),
        Err(_) => format!("{COEFFICIENTS} of a later version"),
    }
}

fn is_binary(field: &Field, parts: &[String]) -> bool {
    let kind = delivered(field, parts);
    kind == "binary" || kind.starts_with(COEFFICIENTS) || is_in_lists(field.data_type(), parts)
}

/// Whether a leaf stores binary values that are the items of lists, such as the frames of clips.
fn is_in_lists(of: &DataType, parts: &[String]) -> bool {
    let (DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)) = of else {
        return false;
    };
    match item.data_type() {
        DataType::Struct(fields) => fields.iter().any(|field| {
            parts.last() == Some(field.name()) && TypeName(field.data_type()).to_string() == "binary"
        }),
        item => TypeName(item).to_string() == "binary" || is_in_lists(item, parts),
    }
}

/// Writes the columns, one on each line.
pub(super) fn table(columns: &[LeafColumn], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let names: Vec<(Cow<'_, str>, Cow<'_, str>)> =
        columns.iter().map(|column| (escaped(&column.name), escaped(&column.kind))).collect();
    let width = names.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max("column".len());
    let kinds = names.iter().map(|(_, kind)| kind.chars().count()).max().unwrap_or(0).max("type".len());
    let all: u64 = columns.iter().map(|column| column.stored_bytes).sum();
    writeln!(
        f,
        "{:<width$}  {:<kinds$} {:>10} {:>8} {:>10}  {:<13} {:<5}  encodings",
        "column", "type", "stored", "share", "raw", "codec", "index"
    )?;
    for (column, (name, kind)) in columns.iter().zip(&names) {
        let share = column.stored_bytes as f64 / all.max(1) as f64;
        writeln!(
            f,
            "{:<width$}  {:<kinds$} {:>10} {:>8} {:>10}  {:<13} {:<5}  {}",
            name,
            kind,
            bytes(column.stored_bytes),
            percent(share),
            bytes(column.uncompressed_bytes),
            join(&column.codecs),
            if column.page_index { "yes" } else { "no" },
            join(&column.encodings),
        )?;
    }
    Ok(())
}

fn join(words: &BTreeSet<String>) -> String {
    words.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}
