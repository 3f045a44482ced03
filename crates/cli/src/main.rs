//! The `forebay` program, as `cargo install` puts it in place; the wheel carries the same one.

use forebay_cli as cli;

#[global_allocator]
static ALLOCATOR: cli::Allocator = cli::ALLOCATOR;

fn main() {
    std::process::exit(cli::start(std::env::args_os()));
}
