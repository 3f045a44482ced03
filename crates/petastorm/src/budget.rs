//! What reading one schema may take.

use forebay_base::{Error, ErrorKind, Result};

/// Steps for one schema: an opcode, an attribute that is looked at, or a field is one. A field takes some
/// 50 of them.
pub(crate) const MAX_STEPS: usize = 1 << 20;

/// Bytes for the values of one schema. It leaves 4 of 16 MiB for what an allocator adds. A field takes 2 to 4
/// KiB.
pub(crate) const MAX_BYTES: usize = 12 << 20;

/// What an allocator takes beside each block.
const BLOCK: usize = 16;

/// The steps and bytes that are left.
pub(crate) struct Budget {
    steps: usize,
    bytes: usize,
}

impl Budget {
    /// All of it.
    pub(crate) fn new() -> Self {
        Budget { steps: MAX_STEPS, bytes: MAX_BYTES }
    }

    /// `count` steps are done.
    pub(crate) fn steps(&mut self, count: usize) -> Result<()> {
        self.steps = self.steps.checked_sub(count).ok_or_else(|| exceeded(MAX_STEPS, "steps"))?;
        Ok(())
    }

    /// A block of `bytes` is about to be allocated.
    pub(crate) fn block(&mut self, bytes: usize) -> Result<()> {
        self.bytes(bytes.saturating_add(BLOCK))
    }

    /// A vector is about to grow by `count` values of `T`. Its capacity is at most twice its length.
    pub(crate) fn grow<T>(&mut self, count: usize) -> Result<()> {
        self.bytes(count.saturating_mul(2 * size_of::<T>()))
    }

    /// `bytes` are about to be allocated.
    pub(crate) fn bytes(&mut self, bytes: usize) -> Result<()> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(|| exceeded(MAX_BYTES, "bytes"))?;
        Ok(())
    }
}

fn exceeded(limit: usize, what: &str) -> Error {
    Error::new(ErrorKind::TooLarge, format!("the Petastorm schema takes more than {limit} {what} to read"))
        .hint("divide its fields among several data sets, if it is not a damaged or hostile one")
}
