//! How a test says that it did not run: by a line that the harness does not capture, which `make test-rust` counts.

use std::io::{self, Write};

/// Says that the test of this thread did not run, and why.
pub(crate) fn skipped(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // The harness may be in the middle of a line. Only the macros that print are captured.
    let _ = writeln!(io::stderr(), "\nskipped: {test}: {reason}");
}
