//! Checks the sizes of the pages in a checkpoint of a Delta table, before any page is decompressed.

use bytes::Bytes;
use forebay_base::panics::caught;
use forebay_base::{Error, ErrorKind, Result};
use parquet::file::metadata::ParquetMetaDataReader;

use crate::catalog::page_header;

/// The largest accepted size of a decompressed page in bytes. Writers make pages of about 1 MiB.
const LARGEST_PAGE: u32 = 64 << 20;

/// Refuses a checkpoint with a page that is larger than any writer makes. A file that is not valid Parquet
/// passes here, because reading it later gives a better error.
///
/// # Errors
/// `TooLarge`, with the name of the column.
pub(super) fn check(file: &Bytes) -> Result<()> {
    let metadata = caught(|| ParquetMetaDataReader::new().parse_and_finish(file));
    let Ok(Ok(metadata)) = metadata else { return Ok(()) };
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let (start, length) = column.byte_range();
        let end = start.saturating_add(length).min(file.len() as u64);
        let mut at = start;
        while at < end {
            let Ok((page, header)) = page_header::read(&file[at as usize..end as usize]) else { break };
            if page.uncompressed > LARGEST_PAGE {
                let (bytes, name) = (page.uncompressed, column.column_path());
                let cause =
                    format!("a page of {name} in the checkpoint takes {bytes} bytes once decompressed");
                let hint = format!(
                    "no writer makes pages of more than {LARGEST_PAGE} bytes: write the checkpoint again"
                );
                return Err(Error::new(ErrorKind::TooLarge, cause).hint(hint));
            }
            at = at.saturating_add(header as u64).saturating_add(page.compressed.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_arrow::array::{ArrayRef, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::{Compression, ZstdLevel};
    use parquet::file::properties::WriterProperties;

    use super::*;

    fn of_one_text(length: usize) -> Bytes {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(length)]));
        let batch = RecordBatch::try_from_iter([("path", texts)]).unwrap();
        let zstd = Compression::ZSTD(ZstdLevel::default());
        let properties =
            WriterProperties::builder().set_compression(zstd).set_dictionary_enabled(false).build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap().into()
    }

    #[test]
    fn a_page_that_grows_beyond_what_writers_make_is_refused() {
        let bomb = of_one_text(65 << 20);
        assert!(bomb.len() < 1 << 20, "{} bytes", bomb.len());
        let error = check(&bomb).unwrap_err();
        assert!(
            error.kind() == ErrorKind::TooLarge && error.to_string().contains("a page of \"path\""),
            "{error}"
        );
        assert!(check(&of_one_text(1 << 20)).is_ok());
        assert!(check(&Bytes::from_static(b"no Parquet")).is_ok());
    }
}
