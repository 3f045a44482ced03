//! The program and what is shipped with it: commands, the README, the licences, and the floors of the source.

mod cli;
mod floors;
mod notices;
mod readme;
