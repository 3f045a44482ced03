//! How much is made at a time.

/// Rows that are made at a time, for which lanes are loaded once.
pub(super) const ROWS: usize = 4;
/// Bytes of a register.
pub(super) const REGISTER: usize = 32;
/// Weights that are multiplied together.
pub(super) const PAIR: usize = 2;
/// Most pairs of weights that a pixel may have along an axis, for a scale of more than 7.
pub(super) const MOST_PAIRS: usize = 8;
