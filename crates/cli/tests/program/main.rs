//! The program as a user starts it, and the README that tells how.

mod cli;
mod readme;
