//! The sizes of the steps in which rows are made.

/// The number of bytes of a register.
pub(super) const REGISTER: usize = 32;
/// The number of weights that an instruction multiplies with levels and adds up.
pub(super) const PAIR: usize = 2;
/// The most pairs of weights that a pixel may have along an axis, for a scale of more than 7.
pub(super) const MOST_PAIRS: usize = 8;
