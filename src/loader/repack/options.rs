//! What a user says of a data set that is written again.

use std::collections::BTreeMap;

use super::form::Repack;

/// What is written again, and how.
#[derive(Clone, Debug)]
pub struct RepackOptions {
    /// The location of the data set, as it was opened.
    pub from: String,
    /// The form that images get.
    pub form: Repack,
    /// The columns of images; `None`: those that hold any.
    pub columns: Option<Vec<String>>,
    /// Threads that decode; `None`: one for each processor.
    pub threads: Option<usize>,
    /// Those of the store that is written to.
    pub storage: BTreeMap<String, String>,
}
