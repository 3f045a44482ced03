//! The bits of a scan, without its stuffing.
//!
//! A window of the scan is copied with the stuffed zeros left out, eight bytes at a time where none is 0xFF. So a refill
//! has no branch: it is the fourth variant of Fabian Giesen's "Reading bits in far too many ways".

/// Bytes of the window, which stay in the first-level cache.
const WINDOW: usize = 8192;
const WORD: usize = size_of::<u64>();
/// Bytes of the largest MCU, ten blocks of 64 symbols of 27 bits, and the word that is loaded ahead.
const MCU: usize = 10 * 64 * 27 / 8 + WORD;
const PREFIX: u8 = 0xFF;

/// Bits that are surely there after a refill.
const FILLED: u32 = 56;

pub(crate) struct Bits<'a> {
    scan: &'a [u8],
    /// Next byte of the scan to copy.
    next: usize,
    window: Box<[u8; WINDOW]>,
    /// Bytes of the window that are the scan's; zeros follow.
    filled: usize,
    /// Bytes of earlier windows.
    before: usize,
    /// A marker, or the end of the bytes, stands at `next`.
    ended: bool,
    head: Head,
}

impl<'a> Bits<'a> {
    pub(crate) fn new(scan: &'a [u8]) -> Bits<'a> {
        Bits {
            scan,
            next: 0,
            window: Box::new([0; WINDOW]),
            filled: 0,
            before: 0,
            ended: false,
            head: Head::default(),
        }
    }

    /// Begins with another scan, or another part of this one.
    pub(crate) fn restart(&mut self, scan: &'a [u8]) {
        (self.scan, self.next) = (scan, 0);
        (self.filled, self.before, self.ended) = (0, 0, false);
        self.head = Head::default();
    }

    /// What follows the marker that ended these bits; `None` if there is none.
    pub(crate) fn behind_marker(&self) -> Option<&'a [u8]> {
        self.scan.get(self.next + 2..)
    }

    /// Bits read so far.
    pub(crate) fn position(&self) -> usize {
        (self.before + self.head.at) * 8 - self.head.count as usize
    }

    /// Whether more was read than there is.
    pub(crate) fn overrun(&self) -> bool {
        self.ended && self.position() > (self.before + self.filled) * 8
    }

    /// Has all bytes of the next MCU in the window.
    #[inline]
    pub(crate) fn prepare(&mut self) {
        if self.filled < self.head.at + MCU && !self.ended {
            self.slide();
        }
    }

    #[cold]
    fn slide(&mut self) {
        self.window.copy_within(self.head.at..self.filled, 0);
        self.before += self.head.at;
        self.filled -= self.head.at;
        self.head.at = 0;
        while self.filled + 2 * WORD < WINDOW && !self.ended {
            self.copy_plain();
            self.copy_prefix();
        }
        if self.ended {
            self.window[self.filled..].fill(0);
        }
    }

    /// Copies up to the next 0xFF, in whole words.
    #[inline]
    fn copy_plain(&mut self) {
        const ONES: u64 = u64::MAX / 0xFF;
        let from = self.scan[self.next..].as_chunks::<WORD>().0;
        let to = self.window[self.filled..].as_chunks_mut::<WORD>().0;
        let mut plain = 0;
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
            let word = u64::from_le_bytes(*from);
            let prefixes = (!word).wrapping_sub(ONES) & word & (ONES << 7);
            if prefixes != 0 {
                plain += prefixes.trailing_zeros() as usize / 8;
                break;
            }
            plain += WORD;
        }
        self.filled += plain;
        self.next += plain;
    }

    /// Copies what stands behind: a stuffed 0xFF, or one of the last bytes.
    #[inline]
    fn copy_prefix(&mut self) {
        if self.filled == WINDOW {
            return;
        }
        match self.scan[self.next..] {
            [PREFIX, 0, ..] => {
                self.window[self.filled] = PREFIX;
                self.filled += 1;
                self.next += 2;
            }
            [] | [PREFIX, ..] => self.ended = true,
            [byte, ..] => {
                self.window[self.filled] = byte;
                self.filled += 1;
                self.next += 1;
            }
        }
    }

    /// What is read within an MCU, to be kept in registers.
    #[inline(always)]
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader { window: &self.window, head: self.head }
    }

    /// Goes on where a reader has stopped.
    #[inline(always)]
    pub(crate) fn go_to(&mut self, head: Head) {
        self.head = head;
    }
}

/// A place in the window, and the bits that were loaded from it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Head {
    /// Next byte to load.
    at: usize,
    /// The bits that come next, the first one highest.
    bits: u64,
    count: u32,
}

/// Reads the bits of an MCU that was prepared.
pub(crate) struct Reader<'w> {
    window: &'w [u8; WINDOW],
    pub(crate) head: Head,
}

impl Reader<'_> {
    /// At least [`FILLED`] bits, of which those behind the end are zeros.
    #[inline(always)]
    pub(crate) fn refill(&mut self) {
        let Head { at, bits, count } = self.head;
        // Only a damaged scan reads behind the window, and reads zeros.
        let word = self.window.get(at..).and_then(|rest| rest.first_chunk::<WORD>()).unwrap_or(&[0; WORD]);
        self.head = Head {
            at: at + ((63 - count) >> 3) as usize,
            bits: bits | (u64::from_be_bytes(*word) >> count),
            count: count | FILLED,
        };
    }

    #[inline(always)]
    pub(crate) fn peek(&self) -> u64 {
        self.head.bits
    }

    #[inline(always)]
    pub(crate) fn consume(&mut self, bits: u8) {
        self.head.bits <<= bits;
        self.head.count -= u32::from(bits);
    }
}
