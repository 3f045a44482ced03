//! Limits the time and memory that reading one schema may take.

use forebay_base::{Error, ErrorKind, Result};

/// How many steps reading one schema may take. An opcode, an attribute that is read and a field count as one
/// step each; a field with its parts takes some 50 steps.
pub(crate) const MAX_STEPS: usize = 1 << 20;

/// How many bytes the values of one schema may take. It leaves 4 of 16 MiB for the overhead of an allocator.
/// A field takes 2 to 4 KiB.
pub(crate) const MAX_BYTES: usize = 12 << 20;

/// The overhead of an allocator for each block, in bytes.
const BLOCK_OVERHEAD_BYTES: usize = 16;

/// The steps and bytes that are left.
pub(crate) struct Budget {
    steps: usize,
    bytes: usize,
}

impl Budget {
    /// The whole budget.
    pub(crate) fn new() -> Self {
        Budget { steps: MAX_STEPS, bytes: MAX_BYTES }
    }

    /// Takes `count` steps from the budget.
    pub(crate) fn steps(&mut self, count: usize) -> Result<()> {
        self.steps = self.steps.checked_sub(count).ok_or_else(|| exceeded(MAX_STEPS, "steps"))?;
        Ok(())
    }

    /// Takes a block of `bytes` from the budget, before it is allocated.
    pub(crate) fn block(&mut self, bytes: usize) -> Result<()> {
        self.bytes(bytes.saturating_add(BLOCK_OVERHEAD_BYTES))
    }

    /// Takes the growth of a vector by `count` values of `T` from the budget. A vector's capacity is at most
    /// twice its length.
    pub(crate) fn grow<T>(&mut self, count: usize) -> Result<()> {
        self.bytes(count.saturating_mul(2 * size_of::<T>()))
    }

    /// Takes `bytes` from the budget, before they are allocated.
    pub(crate) fn bytes(&mut self, bytes: usize) -> Result<()> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(|| exceeded(MAX_BYTES, "bytes"))?;
        Ok(())
    }
}

fn exceeded(limit: usize, what: &str) -> Error {
    Error::new(ErrorKind::TooLarge, format!("the Petastorm schema takes more than {limit} {what} to read"))
        .hint("divide its fields among several data sets, if it is not a damaged or hostile one")
}
