//! Passes the optimisation level to the program, because the compiler does not expose it.
#![allow(clippy::expect_used, reason = "cargo sets what is read here")]

fn main() {
    let level = std::env::var("OPT_LEVEL").expect("cargo sets OPT_LEVEL for build scripts");
    println!("cargo::rustc-env=FOREBAY_OPT_LEVEL={level}");
    println!("cargo::rerun-if-changed=build.rs");
}
