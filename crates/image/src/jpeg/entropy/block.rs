//! Blocks of coefficients.

/// The coefficients of a block, in natural order.
pub(super) type Block = [i16; 64];

/// The most components of a scan.
pub(super) const COMPONENTS: usize = 4;
/// The most blocks of an MCU.
pub(super) const BLOCKS: usize = 10;
