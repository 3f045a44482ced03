//! Checks that the licences of all linked libraries are shipped.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::process::Command;

const NOTICES: &str = include_str!("../../THIRD-PARTY-NOTICES");

#[test]
fn every_crate_that_is_linked_is_named_with_its_version() {
    let mut missing = Vec::new();
    for package in ["forebay-cli", "forebay-python"] {
        let tree =
            ["tree", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--offline", "--locked"];
        let listed = Command::new(env!("CARGO"))
            .args(tree)
            .args(["--package", package])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        let listed = String::from_utf8(listed.stdout).unwrap();
        for line in listed.lines().filter(|line| !line.is_empty() && !line.contains("(/")) {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap();
            let version = words.next().unwrap().trim_start_matches('v');
            let named = format!("\n{name} {version} (");
            if !NOTICES.contains(&named) {
                missing.push(format!("{name} {version}"));
            }
        }
    }
    missing.sort();
    missing.dedup();
    assert!(missing.is_empty(), "THIRD-PARTY-NOTICES is old, run tools/notices: {missing:?}");
}

#[test]
fn the_c_libraries_inside_are_named_with_what_they_ask_for() {
    for asked in [
        "This software is based in part on the work of the Independent JPEG Group.",
        "The Modified (3-clause) BSD License",
        "Meta Platforms, Inc. and affiliates",
        "Microsoft Corporation, Daan Leijen",
    ] {
        assert!(NOTICES.contains(asked), "{asked}");
    }
}
