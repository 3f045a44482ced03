//! Packs the coefficients of an image.

use std::borrow::Borrow;

use super::super::block::{Block, COMPONENTS};
use super::super::frame::Frame;
use super::super::sequential::NATURAL;
use super::{BYTE_DC, FACTS, Facts, MARK, PADDING, STREAMS, WORD_DC};

/// The values that fit into a nibble.
const NIBBLE: std::ops::RangeInclusive<i16> = -8..=7;

/// The values of AC for which a baseline JPEG has codes.
const BASELINE_AC: std::ops::RangeInclusive<i16> = -1023..=1023;
/// The values of DC for which a baseline JPEG has codes.
const BASELINE_DC: std::ops::RangeInclusive<i16> = -1024..=1023;

/// The packed coefficients of one image.
pub(in crate::jpeg) struct PackedImage {
    pub(in crate::jpeg) bytes: Vec<u8>,
    /// Whether a baseline JPEG can have these coefficients.
    pub(in crate::jpeg) fits_baseline: bool,
}

/// Collects the parts of packed coefficients block by block.
pub(in super::super) struct Writer {
    mcus_per_row: usize,
    mcu_rows: usize,
    /// The component of each block of an MCU.
    components: Vec<u8>,
    /// The number of MCUs that the current row has so far.
    column: usize,
    before: [i16; COMPONENTS],
    index: Vec<[u32; STREAMS]>,
    blocks: Vec<u8>,
    bitmaps: Vec<u8>,
    nibbles: Vec<u8>,
    bytes: Vec<u8>,
    words: Vec<u8>,
    fits_baseline: bool,
}

impl Writer {
    pub(in super::super) fn new(frame: &Frame) -> Writer {
        let components = frame.components.iter().zip(0..).flat_map(|(component, index)| {
            let (across, down) = frame.blocks_of_mcu(component);
            std::iter::repeat_n(index, across * down)
        });
        Writer {
            mcus_per_row: frame.mcus_per_row(),
            mcu_rows: frame.mcu_rows(),
            components: components.collect(),
            column: frame.mcus_per_row(),
            before: [0; COMPONENTS],
            index: Vec::with_capacity(frame.mcu_rows()),
            blocks: Vec::with_capacity(frame.blocks()),
            bitmaps: Vec::new(),
            nibbles: Vec::new(),
            bytes: Vec::new(),
            words: Vec::new(),
            fits_baseline: true,
        }
    }

    /// The number of blocks of an MCU.
    pub(in super::super) fn in_mcu(&self) -> usize {
        self.components.len()
    }

    pub(in super::super) fn mcus(&self) -> usize {
        self.mcus_per_row * self.mcu_rows
    }

    /// Adds the blocks of the next MCU. Each block comes with a mask of its AC coefficients that are not
    /// zero: bit `63 - k` stands for coefficient `k` in zigzag order.
    #[inline(always)]
    pub(in super::super) fn add(&mut self, blocks: impl Iterator<Item = (impl Borrow<Block>, u64)>) {
        if self.column == self.mcus_per_row {
            let streams = [&self.bitmaps, &self.nibbles, &self.bytes, &self.words];
            self.index.push(streams.map(|stream| stream.len() as u32));
            (self.column, self.before) = (0, [0; COMPONENTS]);
        }
        self.column += 1;
        for (at, (block, mask)) in blocks.enumerate() {
            let (component, block) = (usize::from(self.components[at]), block.borrow());
            let dc = self.add_dc(component, block[0]);
            let length = self.add_ac(block, mask);
            self.blocks.push(length | dc << 4);
        }
    }

    /// Computes the difference between a block's DC and that of the block before it in the same component.
    /// Returns the difference if it fits a nibble. Otherwise stores it as a byte or word, and returns the
    /// nibble that says so.
    fn add_dc(&mut self, component: usize, value: i16) -> u8 {
        let difference = value.wrapping_sub(self.before[component]);
        self.before[component] = value;
        self.fits_baseline &= BASELINE_DC.contains(&value);
        match i8::try_from(difference) {
            Ok(byte) if byte > BYTE_DC && byte < -BYTE_DC => return byte as u8 & 15,
            Ok(byte) if byte != WORD_DC => self.bytes.push(byte as u8),
            _ => {
                self.bytes.push(WORD_DC as u8);
                self.words.extend(difference.to_le_bytes());
            }
        }
        BYTE_DC as u8 & 15
    }

    /// Adds the AC of a block, and returns the length of its bitmap.
    fn add_ac(&mut self, block: &Block, mask: u64) -> u8 {
        let mut left = mask.reverse_bits() >> 1;
        let length = (u64::BITS - left.leading_zeros()).div_ceil(u8::BITS) as u8;
        extend(&mut self.bitmaps, left.to_le_bytes(), length.into());
        // The loop writes every value to both lists instead of branching, because the processor could not
        // predict the branch.
        let ([mut values, mut escapes], [mut count, mut escaped]) = ([[0i16; 64]; 2], [0; 2]);
        while left != 0 {
            let value = block[usize::from(NATURAL[left.trailing_zeros() as usize + 1])];
            left &= left - 1;
            (values[count % 64], escapes[escaped % 64]) = (value, value);
            count += 1;
            escaped += usize::from(!NIBBLE.contains(&value));
        }
        let mut nibbles = [0; 32];
        for (both, pair) in nibbles.iter_mut().zip(values.as_chunks::<2>().0) {
            let [low, high] = pair.map(|value| if NIBBLE.contains(&value) { value as u8 & 15 } else { 0 });
            *both = low | high << 4;
        }
        extend(&mut self.nibbles, nibbles, count.div_ceil(2));
        for value in &escapes[..escaped] {
            match i8::try_from(*value) {
                Ok(byte) => self.bytes.push(byte as u8),
                Err(_) => {
                    self.bytes.push(0);
                    self.words.extend(value.to_le_bytes());
                    self.fits_baseline &= BASELINE_AC.contains(value);
                }
            }
        }
        length
    }

    /// Joins all parts; `None` if a size does not fit the 32-bit numbers of the format.
    pub(in super::super) fn finish(self, facts: Facts, header: &[u8]) -> Option<PackedImage> {
        let streams = [&self.bitmaps, &self.nibbles, &self.bytes, &self.words];
        let sizes = [header.len(), self.mcus_per_row, self.mcu_rows];
        let numbers = sizes.into_iter().chain(streams.map(Vec::len));
        let numbers: Vec<u32> = numbers.map(u32::try_from).collect::<Result<_, _>>().ok()?;
        let all = std::iter::once(&self.blocks).chain(streams);
        let size = FACTS + header.len() + self.index.len() * size_of::<[u32; STREAMS]>() + PADDING;
        let mut packed = Vec::with_capacity(size + all.clone().map(Vec::len).sum::<usize>());
        packed.extend(MARK);
        packed.extend(facts.width.to_le_bytes());
        packed.extend(facts.height.to_le_bytes());
        let in_mcu = self.components.len() as u8;
        packed.extend([facts.channels, facts.orientation, facts.mcu_width.unwrap_or(0), in_mcu]);
        packed.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        packed.extend(header);
        packed.extend(self.index.as_flattened().iter().flat_map(|number| number.to_le_bytes()));
        all.for_each(|part| packed.extend(part));
        packed.extend([0; PADDING]);
        Some(PackedImage { bytes: packed, fits_baseline: self.fits_baseline })
    }
}

/// Appends the first `count` of `bytes`. All bytes are appended and then truncated, because a copy of a
/// constant length is faster.
#[inline(always)]
fn extend<const N: usize>(to: &mut Vec<u8>, bytes: [u8; N], count: usize) {
    let before = to.len();
    to.extend_from_slice(&bytes);
    to.truncate(before + count);
}
