//! The only file that prints: results to standard output, everything else to standard error. What a terminal would obey in
//! a name from a file is spelled out.
//!
//! With `--json -` standard output carries one JSON object and nothing else, so that `forebay … | jq` always works.

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{Foreign, escaped_lines, is_obeyed};
use crate::{Error, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

/// Where there is no terminal, progress is a line now and then: often enough to see that it lives, rare enough for a log.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// On a terminal what is told changes slowly enough to be read.
const TOLD_EVERY: Duration = Duration::from_millis(500);
/// Redraws a second on a terminal.
const REDRAWS: u8 = 10;
/// `--json` takes this for standard output.
const STDOUT: &str = "-";

/// Who hears what.
pub(crate) struct Console {
    json: Option<PathBuf>,
}

impl Console {
    /// A console for a verb that was given `--json`, or not.
    pub(crate) fn new(json: Option<&Path>) -> Self {
        Console { json: json.map(Path::to_path_buf) }
    }

    /// A result for people; silent when standard output belongs to JSON.
    pub(crate) fn say(&self, text: impl Display) -> Result<()> {
        if self.json.as_deref() == Some(Path::new(STDOUT)) {
            return Ok(());
        }
        print(&escaped_lines(&format!("{text}\n")))
    }

    /// The result for programs, if it was asked for.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<()> {
        let Some(target) = &self.json else { return Ok(()) };
        let mut text = serde_json::to_string_pretty(value)
            .map_err(|error| Error::new(crate::ErrorKind::Internal, format!("cannot write JSON: {error}")))?;
        text.push('\n');
        if target == Path::new(STDOUT) {
            return print(&unobeyed_json(&text));
        }
        std::fs::write(target, text)
            .map_err(|error| error.into_error().at(crate::Place::file(target.display().to_string())))
    }

    /// A bar on a terminal, plain lines elsewhere; both on standard error.
    pub(crate) fn progress(&self, doing: &'static str, noun: &'static str, total: u64) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(REDRAWS));
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

/// How far long work has got.
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
    /// `more` units are done.
    pub(crate) fn advance(&mut self, more: u64) {
        self.advance_and_tell(more, String::new);
    }

    /// `more` units are done, and there is more to say. `tell` is asked only when it will be shown.
    pub(crate) fn advance_and_tell(&mut self, more: u64, tell: impl FnOnce() -> String) {
        self.done += more;
        let every = if self.bar.is_some() { TOLD_EVERY } else { LINE_EVERY };
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

/// The same JSON with what JSON leaves as it is, but a terminal obeys, as JSON escapes it.
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

/// As the end of a sentence that goes on, if there is anything to say.
fn after_comma(text: String) -> String {
    if text.is_empty() { text } else { format!(", {text}") }
}

/// A remark on standard error.
pub(crate) fn note(text: impl Display) {
    // Nobody is left to tell when standard error is closed.
    let _ = writeln!(std::io::stderr().lock(), "{}", escaped_lines(&text.to_string()));
}

/// The one sentence of a usage that is refused.
pub(crate) fn complain(text: impl Display) {
    note(format_args!("forebay: error: {text}"));
}

/// The one sentence of a failure, with options as the command line has them.
pub(crate) fn fail(error: &Error) {
    complain(error.sentence(option));
}

/// An option of the library as the program takes it.
pub(crate) fn option(name: &str, value: Option<&str>) -> String {
    let value = value.map_or(String::new(), |value| format!(" {value}"));
    match name {
        "batch_size" | "cache" | "columns" | "drop_last" | "lanes" | "memory" | "threads" | "window_rows" => {
            format!("--{}{value}", name.replace('_', "-"))
        }
        "decode" => format!("--image{value}"),
        _ => format!("{name}{value} of a loader"),
    }
}

/// Text to standard output. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into_error()),
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
