//! Checks the layers of the crate ("floors"): a module imports only from layers below its own. Also checks
//! that no dependency of the crate uses Arrow, Parquet or tokio.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

use std::path::Path;
use std::process::Command;

use super::paths::{exports, module, named, rust_files, without_tests};

/// The modules of `src/` in layers, lowest first; a folder counts as one module. A module may import only
/// from layers on earlier lines.
const FLOORS: [&[&str]; 13] = [
    // These are values and memory, which need no other module.
    &[
        "blend",
        "buffer",
        "depth",
        "draws",
        "exif",
        "format",
        "halves",
        "mask_type",
        "pixel_type",
        "workspace",
    ],
    // These are errors for refused images, and the spec of an image.
    &["opened", "refuse", "spec"],
    &["affine", "geometry", "polygon", "repeat", "run_lengths", "unread"],
    &["canvas", "effects", "finish", "pixels", "placement", "rotation", "sniff"],
    // These draw the crop and changes of an image, decode encoded formats other than JPEG, and resize.
    &["formats", "frame", "png", "resample"],
    &["border", "drawn", "shown"],
    &["output"],
    &["drawing", "jpeg", "raster", "raw"],
    &["scratch"],
    &["kept", "mask", "packed"],
    &["decode", "instance", "probe"],
    &["keep", "owned"],
    &["many"],
];

/// The files of `src/jpeg/` in layers, lowest first.
const JPEG: [&[&str]; 5] = [
    &["ffi", "markers"],
    &["damage", "encode", "region", "repair"],
    &["entropy"],
    &["decoder"],
    &["coefficients", "file"],
];

/// The paths and code of the crate's files, without tests, because tests may import everything.
fn sources() -> Vec<(String, String)> {
    let files = rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let files = files.into_iter().filter(|(file, _)| !file.ends_with("tests.rs"));
    files.map(|(file, code)| (file, without_tests(&code).to_owned())).collect()
}

/// The forbidden imports of modules in `folder`: those from the same layer or from a higher one.
fn arrows_up(folder: &str, floors: &[&[&str]]) -> Vec<String> {
    let floor = |module: &str| floors.iter().position(|modules| modules.contains(&module));
    let sources = sources();
    let (_, lib) = sources.iter().find(|(file, _)| file == "lib.rs").unwrap();
    let exports = exports(lib);
    let mut wrong = Vec::new();
    for (file, code) in &sources {
        let Some(inner) = file.strip_prefix(folder).filter(|inner| !["mod.rs", "lib.rs"].contains(inner))
        else {
            continue;
        };
        let from = module(inner);
        let own = floor(from).unwrap_or_else(|| panic!("{file} has no floor: give it one"));
        let root = folder.replace('/', "::");
        for to in named(file, code, &exports) {
            let Some(to) = to.strip_prefix(&root) else { continue };
            let to = to.split("::").next().unwrap();
            match floor(to) {
                _ if to == from => {}
                Some(other) if other < own => {}
                Some(other) => wrong.push(format!("{file} (floor {own}) imports {to} (floor {other})")),
                None => wrong.push(format!("{file} imports {to} from the facade: name the file that has it")),
            }
        }
    }
    wrong
}

#[test]
fn modules_import_from_lower_floors_only() {
    let wrong = [arrows_up("", &FLOORS), arrows_up("jpeg/", &JPEG)].concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_facade_only_declares_and_exports() {
    for (file, code) in
        sources().iter().filter(|(file, _)| ["lib.rs", "jpeg/mod.rs"].contains(&file.as_str()))
    {
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        assert!(
            !code.clone().any(|line| line.contains("fn ") || line.contains("struct ")),
            "{file} has code"
        );
    }
}

#[test]
fn the_crate_builds_on_neither_arrow_nor_parquet_nor_tokio() {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", "forebay-image", "--edges", "normal", "--prefix", "none"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let (names, said) = (String::from_utf8(tree.stdout).unwrap(), String::from_utf8_lossy(&tree.stderr));
    assert!(tree.status.success() && names.starts_with("forebay-image "), "cargo tree: {said}");
    let foreign = |line: &&str| {
        ["arrow", "parquet", "tokio", "forebay-arrow", "forebay-store"]
            .iter()
            .any(|name| line.starts_with(name))
    };
    let foreign: Vec<&str> = names.lines().filter(foreign).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}
