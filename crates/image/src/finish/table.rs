//! A table with the delivered value for each 8-bit level, which is computed once for all images with the same
//! properties.

use half::{bf16, f16};

use super::super::depth::WIDENING;
use super::super::pixel_type::PixelType;
use super::super::spec::RGB;
use super::registers::Registers;
use super::values::{FinishKey, WHITE};

/// The number of levels of an 8-bit channel.
const LEVELS: usize = 256;

/// The delivered value for each level of each channel, and vector instructions that give the same values, if
/// there are any.
pub(crate) struct ValueTable {
    key: FinishKey,
    values: FinishValues,
    registers: Option<Registers>,
}

enum FinishValues {
    U8,
    U16(Box<[[u16; LEVELS]; RGB]>),
    U32(Box<[[u32; LEVELS]; RGB]>),
}

impl ValueTable {
    /// Computes the values for images with these properties.
    pub(super) fn new(key: FinishKey) -> ValueTable {
        let normal = |channel, level: u16| key.normalized(channel, f32::from(level) / WHITE);
        let values = match key.pixel_type {
            PixelType::U8 => FinishValues::U8,
            PixelType::U16 => FinishValues::U16(filled(|_, level| level * WIDENING)),
            PixelType::BF16 => {
                FinishValues::U16(filled(|c, level| bf16::from_f32(normal(c, level)).to_bits()))
            }
            PixelType::F16 => FinishValues::U16(filled(|c, level| f16::from_f32(normal(c, level)).to_bits())),
            PixelType::F32 => FinishValues::U32(filled(|c, level| normal(c, level).to_bits())),
        };
        let mut table = ValueTable { key, values, registers: None };
        table.registers = Registers::all(&key).find(|registers| table.is_given_by(registers));
        table
    }

    pub(super) fn is_for(&self, key: FinishKey) -> bool {
        self.key == key
    }

    /// Whether vector instructions give the table's value for each level.
    pub(super) fn is_given_by(&self, registers: &Registers) -> bool {
        let levels: Vec<u8> = (0..=u8::MAX).flat_map(|level| [level; RGB]).collect();
        let count = levels.len() / self.key.channels;
        let mut expected = vec![0; levels.len() * self.key.pixel_type.bytes()];
        let mut found = expected.clone();
        self.look_up(0, count, &levels, &mut expected);
        registers.write(0, count, &levels, &mut found) == levels.len() && found == expected
    }

    /// Writes the values of interleaved pixels of an image with `count` pixels, starting at its pixel number
    /// `first`.
    pub(super) fn write(&self, first: usize, count: usize, pixels: &[u8], slot: &mut [u8]) {
        let done = match &self.registers {
            Some(registers) => registers.write(first, count, pixels, slot),
            None => 0,
        };
        self.look_up(first + done / self.key.channels, count, &pixels[done..], slot);
    }

    /// Writes the same as [`write`](Self::write), but with the table alone.
    pub(super) fn look_up(&self, first: usize, count: usize, pixels: &[u8], slot: &mut [u8]) {
        match &self.values {
            FinishValues::U8 => self.key.write(first, count, pixels, slot, |_, level| [level]),
            FinishValues::U16(values) => self.key.write(first, count, pixels, slot, |channel, level| {
                values[channel][usize::from(level)].to_ne_bytes()
            }),
            FinishValues::U32(values) => self.key.write(first, count, pixels, slot, |channel, level| {
                values[channel][usize::from(level)].to_ne_bytes()
            }),
        }
    }
}

fn filled<T: Copy + Default>(bits: impl Fn(usize, u16) -> T) -> Box<[[T; LEVELS]; RGB]> {
    let mut table = Box::new([[T::default(); LEVELS]; RGB]);
    for (channel, values) in table.iter_mut().enumerate() {
        values.iter_mut().zip(0..).for_each(|(value, level)| *value = bits(channel, level));
    }
    table
}
