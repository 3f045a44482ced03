//! Blocks of coefficients.

/// Coefficients of a block, in natural order.
pub(super) type Block = [i16; 64];

/// Components of a scan.
pub(super) const COMPONENTS: usize = 4;
/// Blocks of an MCU.
pub(super) const BLOCKS: usize = 10;
