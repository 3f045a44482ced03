//! One program for all targets: `FOREBAY_FUZZ_TARGET` names the one that runs.

#![no_main]

use std::sync::LazyLock;

use hostile::{Target, target};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FOREBAY_FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| panic!("FOREBAY_FUZZ_TARGET={name:?} is not a target"))
});

fuzz_target!(|data: &[u8]| {
    (TARGET.run)(data);
});
