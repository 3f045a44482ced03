//! The command line program: parses arguments, runs a command (verb) and reports. Each verb has a file of its
//! own; `units` and `console` hold what the verbs share.
//!
//! Exit status: 0 done, 1 failed while running, 2 bad usage or input, 130 interrupted. The program leaves
//! SIGINT to the system, which ends it at once; a host with a handler of its own (Python) restores the
//! default before calling [`run`].
//!
//! The program is a library, so that the binary and the Python wheel contain the same program. It uses
//! forebay as any other user does, and forebay does not depend on it.

mod allocator;
mod bench;
mod cache;
mod clips;
mod console;
mod deny;
mod doctor;
mod image_endings;
mod image_words;
mod index;
mod inspect;
mod level;
mod location;
mod machine;
mod options;
mod output;
mod pack;
mod page;
mod parquet_files;
mod plan;
mod random;
pub mod report;
pub mod row_groups;
mod samples;
mod synth;
mod units;
mod verify;
mod which;
mod window;
mod write;

use std::ffi::OsString;
use std::sync::OnceLock;

use clap::error::ErrorKind as Usage;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub use self::allocator::{ALLOCATOR, Allocator, settle};
pub use self::machine::LEVEL;
use forebay_base::{ErrorKind, Result};
use forebay_store::source;

const NAME: &str = "forebay";
/// The exit status if everything went well.
const DONE: i32 = 0;
/// The exit status after a failure that other arguments would not have prevented.
const FAILED: i32 = 1;
/// The exit status for arguments or data that can never work.
const REFUSED: i32 = 2;

/// The command that starts this program as a new process, if it does not run from its own executable.
static HOST: OnceLock<Vec<OsString>> = OnceLock::new();

/// Feeds GPU training straight from Parquet.
#[derive(Parser)]
#[command(name = NAME, version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "\
Try it, from nothing to a figure:
  forebay synth /tmp/photos --rows 5000
  forebay inspect /tmp/photos
  forebay plan /tmp/photos --world 8
  forebay bench /tmp/photos --image image=rrc224 --step-ms 125

Exit status: 0 done, 1 failed while running, 2 bad usage or input, 130 interrupted.";

#[derive(Subcommand)]
enum Verb {
    Inspect(inspect::Args),
    Plan(Box<plan::Args>),
    Bench(Box<bench::Args>),
    Doctor(Box<doctor::Args>),
    Cache(cache::Args),
    Index(index::Args),
    Pack(pack::PackArgs),
    Unpack(pack::UnpackArgs),
    Which(which::Args),
    Verify(Box<verify::Args>),
    /// The hidden verb that runs one rank of `verify`.
    #[command(hide = true)]
    VerifyRank,
    Synth(synth::Args),
    Write(Box<write::Args>),
}

/// Runs the program like [`run`], as the whole process of the binary: first configures the allocator and
/// switches to a build for this processor if there is one.
pub fn start(args: impl IntoIterator<Item = OsString>) -> i32 {
    settle();
    match level::take_over() {
        Ok(()) => run(args),
        Err(sentence) => {
            console::note(format_args!("{NAME}: {sentence}"));
            REFUSED
        }
    }
}

/// Runs the program like [`run`], inside a Python interpreter. `command` starts the program as a separate
/// process.
pub fn run_hosted(command: Vec<OsString>, args: impl IntoIterator<Item = OsString>) -> i32 {
    // An earlier call in the same interpreter has set the same value, so a refusal does not matter.
    let _ = HOST.set(command);
    run(args)
}

/// Runs the program with `args`, whose first element is the program's name, and returns its exit status.
pub fn run(args: impl IntoIterator<Item = OsString>) -> i32 {
    let args: Vec<OsString> = args.into_iter().collect();
    let outcome = match parse(args.iter().cloned()) {
        Ok(cli) => perform(cli.verb),
        Err(usage) => return refuse(&usage, &args),
    };
    match outcome {
        Ok(()) => DONE,
        Err(error) => {
            console::fail(&error);
            status(error.kind())
        }
    }
}

/// Parses the arguments. A negative number is taken as the value of its option, so that the error says why
/// the number is refused and not that it looks like an option.
fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let command = Cli::command().mut_subcommands(|verb| {
        verb.mut_args(|arg| match arg.is_positional() || !arg.get_action().takes_values() {
            true => arg,
            false => arg.allow_negative_numbers(true),
        })
    });
    Cli::from_arg_matches(&command.try_get_matches_from(args)?)
}

fn perform(verb: Verb) -> Result<()> {
    match verb {
        Verb::Inspect(args) => inspect::run(&args),
        Verb::Plan(args) => plan::run(&args),
        Verb::Bench(args) => bench::run(&args),
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Cache(args) => cache::run(&args),
        Verb::Index(args) => index::run(&args),
        Verb::Pack(args) => pack::pack(&args),
        Verb::Unpack(args) => pack::unpack(&args),
        Verb::Which(args) => which::run(&args),
        Verb::Verify(args) => verify::run(&args),
        Verb::VerifyRank => verify::run_rank(),
        Verb::Synth(args) => synth::run(&args),
        Verb::Write(args) => write::run(&args),
    }
}

/// The exit status for an error: [`REFUSED`] if other arguments or other data would help, otherwise
/// [`FAILED`].
fn status(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::NotFound
        | ErrorKind::Invalid
        | ErrorKind::UnknownColumn
        | ErrorKind::Unsupported
        | ErrorKind::Corrupt
        | ErrorKind::BadRow
        | ErrorKind::StateMismatch
        | ErrorKind::TooLarge => REFUSED,
        _ => FAILED,
    }
}

/// Prints the message that clap returned instead of arguments: help is printed as it is, and a usage error as
/// one sentence.
fn refuse(usage: &clap::Error, args: &[OsString]) -> i32 {
    let text = usage.render().to_string();
    match usage.kind() {
        Usage::DisplayHelp | Usage::DisplayVersion => {
            if console::print(&text).is_err() {
                FAILED
            } else {
                DONE
            }
        }
        Usage::DisplayHelpOnMissingArgumentOrSubcommand => {
            console::note(text);
            REFUSED
        }
        _ => {
            console::complain(without_secrets(sentence(&text), args));
            REFUSED
        }
    }
}

/// The paragraphs of a clap message before its usage, on one line.
fn sentence(text: &str) -> String {
    let about =
        text.split("\nUsage:").next().unwrap_or(text).split("\nFor more information").next().unwrap_or(text);
    let words: Vec<&str> = about.split_whitespace().collect();
    let joined = words.join(" ");
    let clause = joined.strip_prefix("error: ").unwrap_or(&joined).replace(" tip: ", "; ");
    format!("{clause} (see {NAME} --help)")
}

/// Hides the secrets of all locations among the arguments in a sentence that quotes the arguments.
fn without_secrets(sentence: String, args: &[OsString]) -> String {
    args.iter().fold(sentence, |sentence, arg| {
        let arg = arg.to_string_lossy();
        // clap quotes the value of `--json=URL` without the option, so the value is looked for as well.
        let value = arg.split_once('=').map_or("", |(_, value)| value);
        [arg.as_ref(), value].into_iter().fold(sentence, |sentence, text| {
            // `sentence` contains single blanks only, so the blanks of `text` are reduced to single ones.
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            match source::shown(&text) {
                shown if shown != text => sentence.replace(&text, &shown),
                _ => sentence,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_declared_consistently() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_usage_error_is_one_sentence() {
        let Err(usage) = parse(["forebay", "synth", "/tmp/x", "--rws", "3"].map(OsString::from)) else {
            panic!("--rws was accepted");
        };
        let sentence = sentence(&usage.render().to_string());
        assert!(!sentence.contains('\n'), "{sentence}");
        assert!(sentence.contains("--rows"), "{sentence}");
    }

    #[test]
    fn a_location_in_the_wrong_place_is_refused_without_its_secret() {
        let url = "https://ann:hunter2@host/x?sig=hunter2";
        let joined = |option: &str| format!("{option}={url}");
        let options =
            ["--json", "--report", "--trace", "--cache", "--memory", "--step-ms", "--image", "--nothing"];
        let mut calls = vec![vec![url.to_owned()]];
        for verb in ["cache", "synth"] {
            calls.push([verb, url, "--rows", "x"].map(str::to_owned).to_vec());
        }
        for option in options {
            calls.push(["bench", "x", option, url].map(str::to_owned).to_vec());
            calls.push(vec!["bench".into(), "x".into(), joined(option)]);
        }
        for call in calls {
            let args: Vec<OsString> =
                [NAME.to_owned()].into_iter().chain(call.clone()).map(OsString::from).collect();
            let Err(usage) = parse(args.iter().cloned()) else { panic!("{call:?} was accepted") };
            let said = without_secrets(sentence(&usage.render().to_string()), &args);
            assert!(!said.contains("hunter2"), "{said}");
        }
    }

    #[test]
    fn a_number_below_zero_is_refused_as_a_number() {
        for option in ["--batch-size", "--world", "--memory", "--seed"] {
            let Err(usage) = parse(["forebay", "plan", "/tmp/x", option, "-5"].map(OsString::from)) else {
                panic!("{option} -5 was accepted");
            };
            let sentence = sentence(&usage.render().to_string());
            assert!(sentence.contains("invalid value '-5'") && !sentence.contains("-- -5"), "{sentence}");
        }
    }
}
