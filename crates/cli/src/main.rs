//! The `forebay` program, as `cargo install` installs it. The wheel contains the same program.

use forebay_cli as cli;

#[global_allocator]
static ALLOCATOR: cli::Allocator = cli::ALLOCATOR;

fn main() {
    std::process::exit(cli::start(std::env::args_os()));
}
