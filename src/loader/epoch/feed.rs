//! Takes batches from the passes over one source, and collects the bad rows that they find.

use std::time::Duration;

use forebay_base::{Error, ErrorKind, Result};

use crate::loader::bad_rows::BadRow;
use crate::loader::pass::{Made, Pass};

/// The current pass (one run through the rows of a source), and the bad rows of it that were reported.
pub(super) struct Feed {
    /// The number of the current pass within this epoch.
    number: u64,
    pass: Option<Pass>,
    /// The number of bad rows of the current pass that `found` has returned.
    reported: usize,
}

impl Feed {
    pub(super) fn new(number: u64, pass: Option<Pass>) -> Self {
        Feed { number, pass, reported: 0 }
    }

    /// Whether this is the current pass, and it has not ended.
    pub(super) fn is_in(&self, pass: u64) -> bool {
        self.number == pass && self.pass.is_some()
    }

    /// Ends the current pass, so that another can begin.
    pub(super) fn end(&mut self) {
        self.pass = None;
    }

    /// Fails in a forked child.
    pub(super) fn check_process(&self) -> Result<()> {
        self.pass.as_ref().map_or(Ok(()), Pass::check_process)
    }

    /// Waits until the rows of the next batch of the pass are listed; false if they are not after `timeout`.
    pub(super) fn is_listed(&mut self, timeout: Duration) -> Result<bool> {
        self.pass.as_mut().map_or(Ok(true), |pass| pass.is_listed(timeout))
    }

    /// Takes the next batch of the pass; `None` if it has not arrived in time.
    pub(super) fn take(&mut self, timeout: Duration) -> Result<Option<Made>> {
        let Some(pass) = &mut self.pass else {
            return Err(Error::new(ErrorKind::Internal, "a source that gives no rows"));
        };
        pass.take(timeout)
    }

    /// The bad rows that were found since the last call.
    pub(super) fn found(&mut self) -> Vec<BadRow> {
        let all = self.pass.as_ref().map_or(&[][..], Pass::skipped);
        let found = all[self.reported..].to_vec();
        self.reported = all.len();
        found
    }
}
