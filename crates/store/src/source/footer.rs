//! Reads the footers of files in parallel and checks them. The part of a footer that planning and reading
//! need stays in memory as a [`Footer`](crate::catalog::Footer).

mod assemble;
mod check;
mod claims;
mod fetch;
mod kept;
mod later;
mod limits;
mod mend;
mod names;
mod parse;
mod read;
mod structure;
mod turns;

pub(super) use assemble::assemble;
pub(super) use fetch::{IF_DAMAGED, fetch_value};
pub(super) use kept::KeptFooters;
pub use later::Footers;
pub use limits::FOOTERS_AT_ONCE;
pub(super) use limits::{LONGEST_FOOTER, TAIL};
pub(super) use parse::whole;
pub(super) use read::{kept_files, read_all};
pub(super) use turns::FooterTurns;
