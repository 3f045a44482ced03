//! Replaces this program by a faster build for the processor it runs on, if there is one.
//!
//! In the folder of `forebay`, which runs on any x86-64 processor, there may be a build for a level (set of
//! instructions) of the x86-64 psABI, such as `forebay.x86-64-v3`. Its wider instructions scan tables about
//! one and a half times as fast. If the processor supports the level, that build runs instead.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use super::machine::LEVEL;

/// The environment variable that forces a level, instead of the highest that the processor supports.
const WANTED: &str = "FOREBAY_LEVEL";
/// The level that every x86-64 processor supports.
const ANY: &str = "x86-64";

/// Replaces this process by the program for the highest level that the processor has, if that program is in
/// the same folder. Otherwise returns, with an error if the requested level is not available.
pub(super) fn take_over() -> Result<(), String> {
    // This program is already a build for a level above the basic one, so it does not look for another.
    if LEVEL != ANY {
        return Ok(());
    }
    let mut found: Vec<(&str, PathBuf)> =
        fitting().into_iter().filter_map(|level| Some((level, beside(level)?))).collect();
    if let Some(wanted) = env::var(WANTED).ok().filter(|wanted| !wanted.is_empty()) {
        let possible = found.iter().fold(ANY.to_owned(), |named, (level, _)| named + ", " + level);
        found.retain(|(level, _)| *level == wanted);
        if found.is_empty() && wanted != ANY {
            return Err(format!(
                "{WANTED}={wanted}: not for this processor or not beside this program; there is {possible}"
            ));
        }
    }
    let Some((_, program)) = found.into_iter().next() else { return Ok(()) };
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    let error = Command::new(&program).arg0(name).args(arguments).exec();
    Err(format!("{}: {error}", program.display()))
}

/// The levels above the basic one that this processor supports, the highest first.
#[cfg(target_arch = "x86_64")]
fn fitting() -> Vec<&'static str> {
    let third = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("movbe");
    if third { vec!["x86-64-v3"] } else { Vec::new() }
}

#[cfg(not(target_arch = "x86_64"))]
fn fitting() -> Vec<&'static str> {
    Vec::new()
}

/// The program for a level, if there is one in the same folder.
fn beside(level: &str) -> Option<PathBuf> {
    let here = env::current_exe().ok()?;
    let mut name = here.file_name()?.to_owned();
    name.push(format!(".{level}"));
    let there = here.with_file_name(name);
    there.is_file().then_some(there)
}
