//! The bits of a scan, with its byte stuffing removed.
//!
//! Bytes of the scan are copied into a window without the stuffed zeros; eight bytes at a time are copied if
//! none of them is 0xFF. Because of the window, loading more bits needs no branch: this is the fourth variant
//! in Fabian Giesen's "Reading bits in far too many ways".

use super::super::markers::PREFIX;

/// The number of bytes of the window, which stays in the first-level cache.
const WINDOW_BYTES: usize = 8192;
const WORD: usize = size_of::<u64>();
/// The largest number of bytes that are copied to the window. Eight bytes can then be loaded from any of them
/// without reading beyond the window.
const MAX_FILLED_BYTES: usize = WINDOW_BYTES - WORD;
/// The number of bytes that reading one minimum coded unit (MCU) may need: ten blocks of 64 symbols of 27
/// bits, and the word that is loaded ahead.
const MCU_BYTES: usize = 10 * 64 * 27 / 8 + WORD;

/// The number of bits that are always available after a refill.
const FILLED_BITS: u32 = 56;

/// The memory of the window, which is reused for each scan.
pub(super) struct BitBuffer(Box<[u8; WINDOW_BYTES]>);

impl Default for BitBuffer {
    fn default() -> Self {
        BitBuffer(Box::new([0; WINDOW_BYTES]))
    }
}

pub(super) struct Bits<'a> {
    scan: &'a [u8],
    /// The offset in the scan of the next byte that will be copied.
    next: usize,
    window: &'a mut BitBuffer,
    /// The number of bytes of the window that belong to the scan.
    filled: usize,
    /// Whether copying has ended, because a marker is at `next` or the scan is cut off. The filled bytes are
    /// then followed by zeros.
    ended: bool,
    head: Head,
}

/// A position in the window, and the bits that were loaded there.
#[derive(Clone, Copy, Default)]
pub(super) struct Head {
    /// The offset in the window of the next byte to load.
    at: usize,
    /// The next bits, with the first one in the highest place.
    bits: u64,
    count: u32,
    /// Whether the bits contained an invalid code, or a code that went beyond its block.
    pub(super) damaged: bool,
}

impl<'a> Bits<'a> {
    pub(super) fn new(scan: &'a [u8], window: &'a mut BitBuffer) -> Bits<'a> {
        Bits { scan, next: 0, window, filled: 0, ended: false, head: Head::default() }
    }

    /// Restarts after a restart marker, which must come next.
    pub(super) fn restart(&mut self, marker: u8) -> bool {
        let follows = self.stops_at(marker);
        self.scan = self.scan.get(self.next + 2..).unwrap_or_default();
        (self.next, self.filled, self.ended) = (0, 0, false);
        self.head = Head { damaged: self.head.damaged, ..Head::default() };
        follows
    }

    /// Whether the marker `marker` comes next: all bits before it were read, except for less than a byte of
    /// padding.
    pub(super) fn stops_at(&mut self, marker: u8) -> bool {
        if !self.ended {
            self.slide();
        }
        self.ended && (0..8).contains(&self.left()) && self.scan[self.next..].starts_with(&[PREFIX, marker])
    }

    /// The number of bytes that are left from the next marker to the end of the data; `None` if the bits
    /// before the marker were invalid or not all read. Less than a byte of padding may be unread.
    pub(super) fn end(&mut self) -> Option<usize> {
        if !self.ended {
            self.slide();
        }
        let ends = self.ended && !self.head.damaged && (0..8).contains(&self.left());
        ends.then(|| self.scan.len() - self.next)
    }

    /// Whether all bits that were read existed and were valid.
    pub(super) fn sound(&self) -> bool {
        !self.head.damaged && (!self.ended || self.left() >= 0)
    }

    /// The number of unread bits of the window; negative if more were read than exist.
    fn left(&self) -> isize {
        (self.filled as isize - self.head.at as isize) * 8 + self.head.count as isize
    }

    /// Copies bytes of the scan, so that the window has the next `MCU_BYTES` bytes.
    #[inline]
    pub(super) fn prepare(&mut self) {
        if self.filled < self.head.at + MCU_BYTES && !self.ended {
            self.slide();
        }
    }

    /// Whether the window has the `MCU_BYTES` bytes after `head`, or all remaining bytes of the scan.
    #[inline(always)]
    pub(super) fn covers(&self, head: Head) -> bool {
        self.filled >= head.at + MCU_BYTES || self.ended
    }

    #[cold]
    fn slide(&mut self) {
        self.window.0.copy_within(self.head.at..self.filled, 0);
        self.filled -= self.head.at;
        self.head.at = 0;
        while self.filled + WORD < MAX_FILLED_BYTES && !self.ended {
            self.copy_plain();
            self.copy_prefix();
        }
        if self.ended {
            self.window.0[self.filled..].fill(0);
        }
    }

    /// Copies bytes up to the next 0xFF, in whole words.
    #[inline]
    fn copy_plain(&mut self) {
        const ONES: u64 = u64::MAX / 0xFF;
        let from = self.scan[self.next..].as_chunks::<WORD>().0;
        let to = self.window.0[self.filled..MAX_FILLED_BYTES].as_chunks_mut::<WORD>().0;
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

    /// Copies a single byte: a stuffed 0xFF, or one of the last bytes of the data, which do not fill a word.
    #[inline]
    fn copy_prefix(&mut self) {
        if self.filled == MAX_FILLED_BYTES {
            return;
        }
        let (byte, length) = match self.scan[self.next..] {
            [PREFIX, 0, ..] => (PREFIX, 2),
            [PREFIX, marker, ..] if marker != PREFIX => {
                self.ended = true;
                return;
            }
            // The scan is cut off, or a fill byte comes before a marker. Such a file is left to the library.
            [] | [PREFIX, ..] => {
                self.ended = true;
                self.head.damaged = true;
                return;
            }
            [byte, ..] => (byte, 1),
        };
        self.window.0[self.filled] = byte;
        self.filled += 1;
        self.next += length;
    }

    /// Makes a reader for the bits of one MCU. The reader is small enough to be kept in registers.
    #[inline(always)]
    pub(super) fn reader(&self) -> Reader<'_> {
        Reader { window: &self.window.0, head: self.head }
    }

    /// Continues where a reader stopped.
    #[inline(always)]
    pub(super) fn go_to(&mut self, head: Head) {
        self.head = head;
    }
}

/// Reads the bits of one MCU after [`Bits::prepare`] has filled the window for it.
pub(super) struct Reader<'w> {
    window: &'w [u8; WINDOW_BYTES],
    pub(super) head: Head,
}

impl Reader<'_> {
    /// Loads at least [`FILLED_BITS`] bits; those after the end are zeros.
    #[inline(always)]
    pub(super) fn refill(&mut self) {
        let Head { at, bits, count, damaged } = self.head;
        // A damaged scan may read beyond the window, where all bits are zero.
        let word = self.window.get(at..).and_then(|rest| rest.first_chunk::<WORD>()).unwrap_or(&[0; WORD]);
        self.head = Head {
            at: at + ((63 - count) >> 3) as usize,
            bits: bits | (u64::from_be_bytes(*word) >> count),
            count: count | FILLED_BITS,
            damaged,
        };
    }

    #[inline(always)]
    pub(super) fn peek(&self) -> u64 {
        self.head.bits
    }

    #[inline(always)]
    pub(super) fn consume(&mut self, bits: u8) {
        self.head.bits <<= bits;
        self.head.count -= u32::from(bits);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::markers::{EOI, RST};
    use super::*;
    use crate::RowKey;
    use crate::draws::Draws;

    /// Random bytes with stuffing, and the same bytes without it.
    fn stuffed(length: usize, draws: &mut Draws) -> (Vec<u8>, Vec<u8>) {
        let plain: Vec<u8> =
            (0..length).map(|_| if draws.below(50) == 0 { PREFIX } else { draws.below(256) as u8 }).collect();
        let scan = plain.iter().flat_map(|byte| if *byte == PREFIX { vec![PREFIX, 0] } else { vec![*byte] });
        (scan.collect(), plain)
    }

    /// Reads all bits, a few at a time, and prepares the window before each read.
    fn read(bits: &mut Bits<'_>, plain: &[u8], draws: &mut Draws) {
        let mut at = 0;
        while at < plain.len() * 8 {
            bits.prepare();
            let mut reader = bits.reader();
            for _ in 0..draws.below(10 * 64) {
                let count = (1 + draws.below(27) as usize).min(plain.len() * 8 - at);
                let expected = (at..at + count)
                    .fold(0, |bits, at| bits << 1 | u64::from(plain[at / 8] >> (7 - at % 8) & 1));
                if count == 0 {
                    break;
                }
                reader.refill();
                assert_eq!(reader.peek() >> (64 - count), expected, "bit {at} of {} bytes", plain.len());
                reader.consume(count as u8);
                at += count;
            }
            let head = reader.head;
            bits.go_to(head);
            assert!(bits.sound());
        }
    }

    #[test]
    fn all_bits_are_read_wherever_the_scan_ends() {
        let (mut window, mut draws) = (BitBuffer::default(), Draws::new(RowKey(1)));
        for length in (0..40)
            .chain(MAX_FILLED_BYTES - 30..MAX_FILLED_BYTES + 30)
            .chain(2 * MAX_FILLED_BYTES - 30..2 * MAX_FILLED_BYTES + 30)
        {
            for _ in 0..8 {
                let (mut scan, plain) = stuffed(length, &mut draws);
                scan.extend([PREFIX, RST]);
                let (rest, after) = stuffed(draws.below(9_000) as usize, &mut draws);
                scan.extend(rest);
                scan.extend([PREFIX, EOI]);
                let mut bits = Bits::new(&scan, &mut window);
                read(&mut bits, &plain, &mut draws);
                assert!(!bits.stops_at(EOI));
                assert!(bits.restart(RST));
                read(&mut bits, &after, &mut draws);
                assert!(bits.stops_at(EOI) && bits.sound());
            }
        }
    }

    #[test]
    fn a_scan_without_a_marker_behind_it_is_not_sound() {
        let mut window = BitBuffer::default();
        for end in [&[][..], &[PREFIX], &[PREFIX, PREFIX]] {
            let scan = [&[1, 2, 3], end].concat();
            let mut bits = Bits::new(&scan, &mut window);
            bits.prepare();
            assert!(!bits.sound());
        }
    }

    #[test]
    fn more_bits_than_there_are_is_not_sound() {
        let mut window = BitBuffer::default();
        let mut bits = Bits::new(&[1, 2, PREFIX, EOI], &mut window);
        bits.prepare();
        for (count, sound) in [(16, true), (1, false)] {
            let mut reader = bits.reader();
            reader.refill();
            reader.consume(count);
            let head = reader.head;
            bits.go_to(head);
            assert_eq!(bits.sound(), sound);
        }
    }
}
