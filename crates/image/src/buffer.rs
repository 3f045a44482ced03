//! Memory that a thread keeps and reuses for each image.

/// The most bytes that a buffer skips to begin at an address suitable for a 16-bit number.
const SLACK: usize = align_of::<u16>() - 1;

/// A buffer that grows and is never cleared, so that its bytes are arbitrary until written. It begins at an
/// address suitable for a 16-bit number.
#[derive(Default)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    /// Lends the first `bytes` bytes, with arbitrary content.
    pub(super) fn take(&mut self, bytes: usize) -> &mut [u8] {
        if self.bytes() < bytes as u64 {
            // The old content is not needed, so it is not copied.
            self.0 = Vec::new();
            self.0 = vec![0; bytes + SLACK];
        }
        let start = self.start();
        &mut self.0[start..start + bytes]
    }

    /// The first `bytes` bytes, as they were written last.
    pub(super) fn get(&self, bytes: usize) -> &[u8] {
        &self.0[self.start()..][..bytes]
    }

    /// The number of bytes that the buffer can lend.
    pub(super) fn bytes(&self) -> u64 {
        self.0.len().saturating_sub(SLACK) as u64
    }

    fn start(&self) -> usize {
        self.0.as_ptr().align_offset(align_of::<u16>()).min(SLACK).min(self.0.len())
    }
}
