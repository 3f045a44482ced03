//! Tests of the program as a user runs it, and of the commands in README.md.

mod cli;
mod readme;
