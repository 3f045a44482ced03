//! Lets a test say that it did not run, by a line that the harness does not capture and `make test-rust`
//! counts.

use std::io::{self, Write};

/// Says that the test of this thread did not run, and why.
pub(crate) fn skipped(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // The line begins with an empty one, because the harness may be in the middle of a line. It is written
    // directly, because only the macros that print are captured.
    let _ = writeln!(io::stderr(), "\nskipped: {test}: {reason}");
}
