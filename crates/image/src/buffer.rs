//! Memory that a thread keeps from one image to the next.

/// Bytes that a buffer may skip, so that it begins where a 16-bit number may.
const SLACK: usize = align_of::<u16>() - 1;

/// Bytes whose content is meaningless until written: grown, never cleared. They begin where a 16-bit number may.
#[derive(Default)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    /// `bytes` bytes of arbitrary content.
    pub(super) fn take(&mut self, bytes: usize) -> &mut [u8] {
        if self.bytes() < bytes as u64 {
            // Nothing of the old content is needed, so it is not copied.
            self.0 = Vec::new();
            self.0 = vec![0; bytes + SLACK];
        }
        let start = self.start();
        &mut self.0[start..start + bytes]
    }

    /// The first `bytes` bytes, as last written.
    pub(super) fn get(&self, bytes: usize) -> &[u8] {
        &self.0[self.start()..][..bytes]
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> u64 {
        self.0.len().saturating_sub(SLACK) as u64
    }

    fn start(&self) -> usize {
        self.0.as_ptr().align_offset(align_of::<u16>()).min(SLACK).min(self.0.len())
    }
}
