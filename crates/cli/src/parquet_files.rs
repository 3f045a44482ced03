//! How the Parquet files that this program writes are laid out and named.

use forebay_arrow::datatypes::{DataType, Schema};
use forebay_arrow::fail::Foreign;
use forebay_base::{Error, ErrorKind, Result};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

/// The number of images after which the writer checks whether the page is full. With the writer's default of
/// 1,024, pages of images would take 12 to 100 MB.
const IMAGES_BETWEEN_CHECKS: usize = 8;
/// The size of a page of images, so that a reader can take a few rows without fetching the others.
const IMAGE_PAGE_BYTES: usize = 256 << 10;

/// The name of file `number` of `count`.
pub(super) fn name(number: u64, count: u64) -> String {
    format!("part-{number:05}-of-{count:05}.parquet")
}

/// The properties of uncompressed files in which the caller decides where each row group ends.
pub(super) fn uncompressed() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_created_by(concat!("forebay ", env!("CARGO_PKG_VERSION")).to_owned())
        // The caller ends each row group with `flush`, so there is no limit on its rows.
        .set_max_row_group_row_count(None)
}

/// The properties of most files. Columns of bytes are taken for images, which are compressed already: a file
/// with such a column is not compressed, and the column has small pages and no dictionary. Other files use
/// Snappy.
pub(super) fn properties(schema: &Schema) -> WriterProperties {
    builder(schema).build()
}

/// The properties of most files, for a caller that adds to them.
pub(super) fn builder(schema: &Schema) -> WriterPropertiesBuilder {
    let bytes: Vec<&String> = schema
        .fields()
        .iter()
        .filter(|field| matches!(field.data_type(), DataType::Binary | DataType::LargeBinary))
        .map(|field| field.name())
        .collect();
    if bytes.is_empty() {
        return uncompressed().set_compression(Compression::SNAPPY);
    }
    let mut properties = uncompressed().set_write_batch_size(IMAGES_BETWEEN_CHECKS);
    for name in bytes {
        let column = ColumnPath::new(vec![name.clone()]);
        properties = properties
            .set_column_data_page_size_limit(column.clone(), IMAGE_PAGE_BYTES)
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_statistics_enabled(column, EnabledStatistics::None);
    }
    properties
}

/// Converts the result of writing Parquet. An error of the disk becomes `Io`, so that a full disk is not
/// reported as damaged Parquet.
pub(super) fn to_disk<T>(written: std::result::Result<T, ParquetError>) -> Result<T> {
    written.map_err(|error| match error {
        ParquetError::External(source) if source.is::<std::io::Error>() => {
            Error::new(ErrorKind::Io, source.to_string())
        }
        ParquetError::NYI(what) | ParquetError::ArrowError(what) => {
            Error::new(ErrorKind::Unsupported, format!("Parquet has no place for this: {what}"))
        }
        other => other.into_error(),
    })
}
