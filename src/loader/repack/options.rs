//! The options for rewriting a data set.

use std::collections::BTreeMap;

use super::form::Repack;

/// The options for rewriting a data set.
#[derive(Clone, Debug)]
pub struct RepackOptions {
    /// The location of the data set, as it was opened.
    pub from: String,
    /// The form that images get.
    pub form: Repack,
    /// The columns of images; `None` for all columns that hold images.
    pub columns: Option<Vec<String>>,
    /// The number of threads that decode; `None` for one for each processor.
    pub threads: Option<usize>,
    /// The options of the store that is written to.
    pub storage: BTreeMap<String, String>,
}
