//! The values that a blur sums up, and the units of these values and of their weights.

/// The number of fractional bits of a weight.
pub(super) const WEIGHT_BITS: u32 = 15;
/// The number of fractional bits of a level between the two steps.
pub(super) const LEVEL_BITS: u32 = 7;
/// The number of values that are summed together.
pub(super) const BLOCK: usize = 32;

/// The values that a kernel sums up.
#[derive(Clone, Copy)]
pub(super) struct Lines<'a> {
    pub(super) values: &'a [i16],
    /// For each weight, the index of the first of neighbouring values. From there on, `values` must have a
    /// whole number of blocks for the row that is made.
    pub(super) firsts: &'a [usize],
}
