//! The program as a user starts it, and the README that explains it.

mod cli;
mod readme;
