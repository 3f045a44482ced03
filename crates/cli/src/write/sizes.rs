//! Opens files that may be compressed with gzip or zstd, and sets the number of rows that are read at once.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use forebay_base::Result;

use super::read::unreadable;

/// The number of rows of a table that are read at once.
pub(super) const BATCH_ROWS: usize = 1024;

/// A reader of a file's content, decompressed if the ending of its name says that it is compressed.
pub(super) fn decompressed(path: &Path, file: File) -> Result<Box<dyn Read>> {
    let file = BufReader::with_capacity(1 << 20, file);
    Ok(match path.extension().and_then(|ending| ending.to_str()) {
        Some("gz") => Box::new(MultiGzDecoder::new(file)),
        Some("zst") => Box::new(zstd::Decoder::with_buffer(file).map_err(|error| unreadable(path, &error))?),
        _ => Box::new(file),
    })
}

/// The name of a file in lower case, without a final `.gz` or `.zst`.
pub(super) fn plain_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let plain = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst"));
    plain.map_or_else(|| name.clone(), str::to_owned)
}
