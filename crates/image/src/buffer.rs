//! Memory that a thread keeps from one image to the next.

/// The bytes that a buffer may skip, so that it begins at an address suitable for a 16-bit number.
const SLACK: usize = align_of::<u16>() - 1;

/// Bytes whose content is meaningless until written: the buffer grows, and is never cleared. It begins at an
/// address suitable for a 16-bit number.
#[derive(Default)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    /// Lends `bytes` bytes of arbitrary content.
    pub(super) fn take(&mut self, bytes: usize) -> &mut [u8] {
        if self.bytes() < bytes as u64 {
            // The old content is not needed, so it is not copied.
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

    /// The number of bytes that it holds.
    pub(super) fn bytes(&self) -> u64 {
        self.0.len().saturating_sub(SLACK) as u64
    }

    fn start(&self) -> usize {
        self.0.as_ptr().align_offset(align_of::<u16>()).min(SLACK).min(self.0.len())
    }
}
