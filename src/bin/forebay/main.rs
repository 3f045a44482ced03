//! The `forebay` program, as `cargo install` puts it in place; the wheel carries the same one.

#[path = "cli.rs"]
mod cli;

/// Row groups of images are allocated and freed in blocks of many megabytes, which the system's allocator maps and
/// faults in anew each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    std::process::exit(cli::run(std::env::args_os()));
}
