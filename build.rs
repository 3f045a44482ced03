//! Compiles the one C file of the crate, against the headers of the libjpeg-turbo that is built with it.

use std::path::Path;

fn main() {
    let room = Path::new("src/decode/jpeg/baseline");
    println!("cargo::rerun-if-changed={}", room.join("library.c").display());
    let include = std::env::var("DEP_TURBOJPEG_INCLUDE").expect("turbojpeg-sys says where its headers are");
    cc::Build::new().file(room.join("library.c")).includes(include.split(',')).compile("forebay_library");
}
