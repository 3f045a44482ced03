//! Limits the time and memory that reading one schema may take.

use forebay_base::{Error, ErrorKind, Result};

/// How many steps reading one schema may take. An opcode, an attribute that is read and a field count as one
/// step each; a field with its parts takes some 50 steps.
pub(crate) const MAX_STEPS: usize = 1 << 20;

/// How many bytes the values of one schema may take. A field takes 2 to 4 KiB. The allocator may need up to 4
/// MiB more, so reading a schema takes at most 16 MiB.
pub(crate) const MAX_BYTES: usize = 12 << 20;

/// How many bytes the allocator uses for each block, beside its content.
const BLOCK_OVERHEAD_BYTES: usize = 16;

/// The steps and bytes that reading the schema may still take.
pub(crate) struct Budget {
    steps: usize,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Budget { steps: MAX_STEPS, bytes: MAX_BYTES }
    }

    /// Takes `count` steps from the budget.
    pub(crate) fn steps(&mut self, count: usize) -> Result<()> {
        self.steps = self.steps.checked_sub(count).ok_or_else(|| exceeded(MAX_STEPS, "steps"))?;
        Ok(())
    }

    /// Takes a block of memory with `bytes` of content from the budget, before it is allocated.
    pub(crate) fn block(&mut self, bytes: usize) -> Result<()> {
        self.bytes(bytes.saturating_add(BLOCK_OVERHEAD_BYTES))
    }

    /// Takes the memory for `count` more values of `T` in a vector from the budget. It counts twice their
    /// size, because a vector's capacity is up to twice its length.
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
