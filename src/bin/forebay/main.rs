//! The `forebay` program, as `cargo install` puts it in place; the wheel carries the same one.

mod allocator;
#[path = "cli.rs"]
mod cli;
mod level;

fn main() {
    allocator::settle();
    let status = match level::take_over() {
        Ok(()) => cli::run(std::env::args_os()),
        Err(sentence) => {
            eprintln!("forebay: {sentence}");
            cli::REFUSED
        }
    };
    std::process::exit(status);
}
