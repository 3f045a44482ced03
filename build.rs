//! Compiles the one C file of the crate, against the headers of the libjpeg-turbo that is built with it.

use std::path::Path;

fn main() {
    let folder = Path::new("src/decode/jpeg/entropy");
    println!("cargo::rerun-if-changed={}", folder.join("library.c").display());
    let Ok(include) = std::env::var("DEP_TURBOJPEG_INCLUDE") else {
        println!("cargo::error=turbojpeg-sys did not say where the headers of libjpeg-turbo are");
        return;
    };
    let file = folder.join("library.c");
    if let Err(error) =
        cc::Build::new().file(&file).includes(include.split(',')).try_compile("forebay_library")
    {
        println!("cargo::error={} does not compile: {error}", file.display());
    }
}
