//! The only file that prints: results go to standard output, everything else to standard error. Control
//! characters that a terminal would obey are escaped.
//!
//! With `--json -` standard output carries one JSON object and nothing else, so that `forebay … | jq` always
//! works.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_arrow::fail::Foreign;
use forebay_base::error::{escaped_lines, is_obeyed};
use forebay_base::{Error, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::output::Output;

/// The time between two progress lines if standard error is not a terminal: short enough to show that the
/// program is still working, long enough not to fill a log.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// The shortest time between two changes of a progress bar's text, so that people can read it.
const TEXT_EVERY: Duration = Duration::from_millis(500);
/// How often a progress bar is redrawn, per second.
const REDRAWS_A_SECOND: u8 = 10;
/// The value of `--json` that stands for standard output.
const STDOUT: &str = "-";

/// The outputs of the program.
pub(crate) struct Console {
    json: Json,
}

/// The destination of the JSON report, which `--json` names.
enum Json {
    Nowhere,
    Stdout,
    File(Output),
}

impl Console {
    /// Creates a console that writes the JSON report to `json`, the value of `--json`.
    ///
    /// # Errors
    /// `Io` for a file that cannot be written.
    pub(crate) fn new(json: Option<&Path>) -> Result<Self> {
        let json = match json {
            None => Json::Nowhere,
            Some(file) if file == Path::new(STDOUT) => Json::Stdout,
            Some(file) => Json::File(Output::new("--json", file)?),
        };
        Ok(Console { json })
    }

    /// Prints the readable report, unless standard output is reserved for JSON.
    pub(crate) fn say(&self, text: impl Display) -> Result<()> {
        match self.json {
            Json::Stdout => Ok(()),
            _ => print(&escaped_lines(&format!("{text}\n"))),
        }
    }

    /// Writes `value` as JSON to the destination that `--json` names, if there is one.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<()> {
        if matches!(self.json, Json::Nowhere) {
            return Ok(());
        }
        let mut text = serde_json::to_string_pretty(value).map_err(|error| {
            Error::new(forebay_base::ErrorKind::Internal, format!("cannot write JSON: {error}"))
        })?;
        text.push('\n');
        match &self.json {
            Json::Nowhere => Ok(()),
            Json::Stdout => print(&unobeyed_json(&text)),
            Json::File(output) => output.write(&text),
        }
    }

    /// Shows progress on standard error: a bar on a terminal, plain lines elsewhere.
    pub(crate) fn progress(&self, doing: &'static str, noun: &'static str, total: u64) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(
                Some(total),
                ProgressDrawTarget::stderr_with_hz(REDRAWS_A_SECOND),
            );
            let template = format!(
                "{doing} {{wide_bar}} {{human_pos}}/{{human_len}} {noun}, {{per_sec}}, {{eta}} left{{msg}}"
            );
            if let Ok(style) = ProgressStyle::with_template(&template) {
                bar.set_style(style);
            }
            bar
        });
        let now = Instant::now();
        Progress { doing, noun, total, done: 0, bar, started: now, spoke: now }
    }
}

/// The progress of long work.
pub(crate) struct Progress {
    doing: &'static str,
    noun: &'static str,
    total: u64,
    done: u64,
    bar: Option<ProgressBar>,
    started: Instant,
    spoke: Instant,
}

impl Progress {
    /// Counts `more` units as done.
    pub(crate) fn advance(&mut self, more: u64) {
        self.advance_and_tell(more, String::new);
    }

    /// Counts `more` units as done, and shows the text that `tell` returns. Calls `tell` only if the text
    /// will be shown.
    pub(crate) fn advance_and_tell(&mut self, more: u64, tell: impl FnOnce() -> String) {
        self.done += more;
        let every = if self.bar.is_some() { TEXT_EVERY } else { LINE_EVERY };
        let due = self.spoke.elapsed() >= every;
        if due {
            self.spoke = Instant::now();
        }
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.done);
                if due {
                    bar.set_message(after_comma(tell()));
                }
            }
            None if due => {
                let rate = self.done as f64 / self.started.elapsed().as_secs_f64();
                note(format_args!(
                    "{}: {} of {} {}, {rate:.0}/s{}",
                    self.doing,
                    self.done,
                    self.total,
                    self.noun,
                    after_comma(tell())
                ));
            }
            None => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Escapes the control characters in a JSON text that a terminal would act on.
fn unobeyed_json(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        match is_obeyed(character) && character != '\n' {
            true => safe.push_str(&format!("\\u{:04x}", u32::from(character))),
            false => safe.push(character),
        }
    }
    safe
}

/// Puts a comma before the text, if it is not empty.
fn after_comma(text: String) -> String {
    if text.is_empty() { text } else { format!(", {text}") }
}

/// Prints a remark on standard error.
pub(crate) fn note(text: impl Display) {
    // If standard error is closed, there is nothing to do.
    let _ = writeln!(std::io::stderr().lock(), "{}", escaped_lines(&text.to_string()));
}

/// Prints a warning on standard error, only once however many loaders give it.
pub(crate) fn warn(text: impl Display) {
    static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let text = text.to_string();
    if WARNED.lock().unwrap_or_else(PoisonError::into_inner).insert(text.clone()) {
        note(text);
    }
}

/// Prints one sentence that says why the arguments were refused.
pub(crate) fn complain(text: impl Display) {
    note(format_args!("forebay: error: {text}"));
}

/// Prints one sentence about an error. It names options as the command line does, not as the library does.
pub(crate) fn fail(error: &Error) {
    complain(error.sentence(option));
}

/// Returns the option of the program that corresponds to an option of the library.
pub(crate) fn option(name: &str, value: Option<&str>) -> String {
    let value = value.map_or(String::new(), |value| format!(" {value}"));
    match name {
        "batch_size" | "cache" | "columns" | "config" | "drop_last" | "lanes" | "memory" | "piece_rows"
        | "split" | "threads" | "timestamp" | "version" | "window_rows" => {
            format!("--{}{value}", name.replace('_', "-"))
        }
        // The library writes this option as a Python dict, in which `None` means that the column is delivered
        // as stored.
        "decode" if value.ends_with(": None}") => {
            let column = value.trim_start_matches(" {").trim_end_matches(": None}");
            format!("--as-stored {column}")
        }
        "decode" => format!("--image{value}"),
        _ => format!("{name}{value} of a loader"),
    }
}

/// Prints text on standard output. A reader that stops early (`| head`) is not a failure.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let cause = format!("standard output cannot be written: {error}");
            Err(Error::new(error.into_error().kind(), cause)
                .hint("send it to a file on a disk with room, or to a terminal"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_holds_the_same_whatever_the_terminal_is_spared() {
        let value = serde_json::json!({"name": "a\u{9b}2J\u{202e}\u{7f}b\u{1b}é"});
        let text = unobeyed_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!text.contains(|c| is_obeyed(c) && c != '\n'), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn next_moves_name_options_of_the_command_line() {
        let error =
            Error::invalid("x").hint("leave out `columns`, or `window_rows=40` fits, or give `on_bad_row`");
        let sentence = error.sentence(option);
        assert_eq!(
            sentence,
            "x (leave out --columns, or --window-rows 40 fits, or give on_bad_row of a loader)"
        );
    }
}
