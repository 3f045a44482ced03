//! Failing storage, as `Dataset::open` and a loader handle it, over a real socket.
//!
//! RIGHT means the same rows, in the same order, with the same bytes as from the local folder. LOUD means a
//! typed error that names the place, with only right rows before it. There are few runs, so that the suite is
//! quick; `FOREBAY_LONG=1` runs them as often and for as long as promised, and `-- --nocapture` shows what
//! was measured.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]
#![allow(clippy::disallowed_methods, reason = "a test may sleep: it has nothing to close")]
#![allow(clippy::type_complexity, reason = "tables of cases")]
#![allow(clippy::print_stdout, reason = "what was measured is shown on request")]

mod data;
mod kit;
#[path = "../house/skipped.rs"]
mod skipped;

mod cached;
mod change;
mod codes;
mod damage;
mod heads;
mod index;
mod lists;
mod pack;
mod panics;
mod petastorm;
mod refusals;
mod secrets;
mod slow;
mod sweep;
mod traffic;
mod trouble;
