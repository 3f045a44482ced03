//! Failing storage, as `Dataset::open` and a loader handle it, over a real socket.
//!
//! RIGHT is the same rows, in the same order, with the same bytes as the local folder gives. LOUD is a typed
//! error that names the place, after nothing but right rows. The runs are few, so that the suite is quick;
//! `FOREBAY_LONG=1` makes them as many, and as long, as is promised, and `-- --nocapture` shows what was
//! measured.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]
#![allow(clippy::disallowed_methods, reason = "a test may sleep: it has nothing to close")]
#![allow(clippy::type_complexity, reason = "tables of cases")]
#![allow(clippy::print_stdout, reason = "what was measured is shown on request")]

mod data;
mod kit;

mod cached;
mod change;
mod damage;
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
