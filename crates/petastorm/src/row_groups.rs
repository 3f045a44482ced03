//! Reads the number of row groups in each file of a data set, which Petastorm records in its metadata.

use std::collections::BTreeMap;

use forebay_base::{Error, ErrorKind, Result};

/// Reads the number of row groups in each file from the metadata value stored under
/// [`ROW_GROUPS_KEY`](crate::ROW_GROUPS_KEY). The keys of the result are the files' paths within the data
/// set.
///
/// The counts are a hint: files that were added, removed or rewritten later are missing or differ.
///
/// ```
/// let files = forebay_petastorm::row_groups_per_file(br#"{"day=1/part-0.parquet": 2}"#)?;
/// assert_eq!(files["day=1/part-0.parquet"], 2);
/// # Ok::<(), forebay_petastorm::Error>(())
/// ```
///
/// # Errors
///
/// [`Corrupt`](ErrorKind::Corrupt) if the value is anything but a JSON object of counts.
pub fn row_groups_per_file(json: &[u8]) -> Result<BTreeMap<String, u64>> {
    serde_json::from_slice(json).map_err(|error| {
        let cause = format!("Petastorm's count of row groups in each file is damaged: {error}");
        Error::new(ErrorKind::Corrupt, cause)
            .hint("it is a hint only: the footers of the files have the counts")
    })
}
