//! Compiles the C files of this crate with the headers of libjpeg-turbo, which `turbojpeg-sys` builds.

use std::path::{Path, PathBuf};

const SOURCES: [&str; 3] = ["library.c", "read.c", "write.c"];
/// The header that the C files include.
const HEADER: &str = "library.h";

fn main() {
    let folder = Path::new("src/jpeg/entropy");
    for name in SOURCES.into_iter().chain([HEADER]) {
        println!("cargo::rerun-if-changed={}", folder.join(name).display());
    }
    let Ok(include) = std::env::var("DEP_TURBOJPEG_INCLUDE") else {
        println!("cargo::error=turbojpeg-sys did not say where the headers of libjpeg-turbo are");
        return;
    };
    let files: Vec<PathBuf> = SOURCES.iter().map(|name| folder.join(name)).collect();
    if let Err(error) =
        cc::Build::new().files(files).includes(include.split(',')).try_compile("forebay_library")
    {
        println!("cargo::error=the C files in {} do not compile: {error}", folder.display());
    }
}
