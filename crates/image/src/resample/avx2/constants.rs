//! The numbers of bytes and weights that the AVX2 code handles at a time.

/// The number of bytes of a register.
pub(super) const REGISTER: usize = 32;
/// The number of weights that one instruction multiplies with levels and adds up.
pub(super) const PAIR: usize = 2;
/// The most pairs of weights that a result pixel may have along an axis. They suffice for shrinking by a
/// factor of a little more than 7.
pub(super) const MOST_PAIRS: usize = 8;
