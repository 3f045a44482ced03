//! The options for copying a data set with converted images.

use std::collections::BTreeMap;

use super::form::Repack;

/// The options for copying a data set with converted images.
#[derive(Clone, Debug)]
pub struct RepackOptions {
    /// The location from which the data set was opened.
    pub from: String,
    /// The form to which images are converted.
    pub form: Repack,
    /// The columns whose images are converted; `None` for all columns that hold images.
    pub columns: Option<Vec<String>>,
    /// The number of threads that convert images; `None` for one thread for each processor.
    pub threads: Option<usize>,
    /// The options of the store to which the copy is written, such as credentials.
    pub storage: BTreeMap<String, String>,
}
