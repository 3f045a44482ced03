//! Options for the nulls of columns that are decoded, and the numbers that replace them.

use forebay_arrow::datatypes::DataType;
use forebay_arrow::names::TypeName;
use forebay_base::{Error, Result};
use forebay_image::PixelType;
use half::bf16;

use crate::batch::{Fill, value_bytes};

/// The user's options for the nulls of a column.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NullOptions<'a> {
    /// The value that replaces nulls.
    pub(crate) fill: Option<&'a Fill>,
    /// Whether a mask column says which rows are null.
    pub(crate) is_masked: bool,
}

impl NullOptions<'_> {
    /// Whether rows with a null are delivered, instead of being bad rows.
    pub(crate) fn are_delivered(self) -> bool {
        self.is_masked || self.fill.is_some()
    }
}

/// The number with which the slot of a null (its place in the batch) is filled, repeated until the slot is
/// full.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NullSlot {
    number: Vec<u8>,
}

impl NullSlot {
    /// Makes the number for slots whose values have the type `item`; a boolean takes one byte. The number is
    /// the fill, or 0 without a fill; `None` if a null is a bad row.
    ///
    /// # Errors
    /// Fails if the fill is not a value of the type.
    pub(crate) fn new(nulls: NullOptions<'_>, item: &DataType) -> Result<Option<Self>> {
        if !nulls.are_delivered() {
            return Ok(None);
        }
        let zero = Fill::from(0.0);
        let fill = nulls.fill.unwrap_or(&zero);
        fill.check(item)?;
        let number = fill.number().ok_or_else(|| unfit(fill, item))?;
        let number = match item {
            DataType::Boolean => vec![u8::from(number.whole() == Some(1))],
            item => value_bytes(item, number)?,
        };
        Ok(Some(NullSlot { number }))
    }

    /// Makes the number for slots of pixels of the delivered type.
    pub(crate) fn of_pixels(nulls: NullOptions<'_>, pixels: PixelType) -> Result<Option<Self>> {
        match pixels {
            PixelType::U8 => NullSlot::new(nulls, &DataType::UInt8),
            PixelType::U16 => NullSlot::new(nulls, &DataType::UInt16),
            PixelType::F16 => NullSlot::new(nulls, &DataType::Float16),
            PixelType::F32 => NullSlot::new(nulls, &DataType::Float32),
            PixelType::BF16 => {
                let refused = || {
                    let fill = nulls.fill.map(Fill::to_string).unwrap_or_default();
                    Error::invalid(format!("fill_null value {fill} is not a value of type bfloat16"))
                };
                let whole = NullSlot::new(nulls, &DataType::Float32).map_err(|_| refused())?;
                whole.map(|whole| whole.halved().ok_or_else(refused)).transpose()
            }
        }
    }

    /// The bytes for a null among images of different sizes: zeros, which also state a size of 0 by 0.
    pub(crate) fn empty(self) -> Self {
        NullSlot { number: vec![0] }
    }

    /// Fills a slot with the number.
    pub(crate) fn write(&self, slot: &mut [u8]) {
        match self.number.iter().all(|byte| *byte == 0) {
            true => slot.fill(0),
            false => slot
                .chunks_exact_mut(self.number.len())
                .for_each(|number| number.copy_from_slice(&self.number)),
        }
    }

    /// Converts the number from float32 to bfloat16; `None` if it is larger than any bfloat16.
    fn halved(self) -> Option<Self> {
        let whole = match self.number[..] {
            [a, b, c, d] => f32::from_ne_bytes([a, b, c, d]),
            _ => 0.0,
        };
        let half = bf16::from_f32(whole);
        (half.is_finite() || !whole.is_finite()).then(|| NullSlot { number: half.to_ne_bytes().to_vec() })
    }
}

fn unfit(fill: &Fill, item: &DataType) -> Error {
    Error::invalid(format!("fill_null value {fill} is not a value of type {}", TypeName(item)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(fill: Option<f64>, item: &DataType) -> Vec<u8> {
        let fill = fill.map(Fill::from);
        let nulls = NullOptions { fill: fill.as_ref(), is_masked: true };
        let mut slot = vec![9; 8];
        NullSlot::new(nulls, item).unwrap().unwrap().write(&mut slot);
        slot
    }

    #[test]
    fn a_slot_is_filled_with_the_number_or_with_zeros() {
        assert_eq!(NullSlot::new(NullOptions::default(), &DataType::Int8).unwrap(), None);
        for item in [DataType::Boolean, DataType::UInt8, DataType::Float64] {
            assert_eq!(written(None, &item), [0; 8]);
        }
        assert_eq!(written(Some(1.0), &DataType::Boolean), [1; 8]);
        assert_eq!(written(Some(255.0), &DataType::UInt8), [255; 8]);
        assert_eq!(written(Some(-2.0), &DataType::Int16), (-2i16).to_ne_bytes().repeat(4));
        assert_eq!(written(Some(0.5), &DataType::Float32), 0.5f32.to_ne_bytes().repeat(2));
    }

    #[test]
    fn a_number_that_a_type_of_pixels_does_not_have_is_refused() {
        let of = |number: f64, pixels| {
            let fill = Fill::from(number);
            NullSlot::of_pixels(NullOptions { fill: Some(&fill), is_masked: false }, pixels)
        };
        for (number, pixels) in [
            (256.0, PixelType::U8),
            (-1.0, PixelType::U16),
            (0.5, PixelType::U8),
            (1e6, PixelType::F16),
            (3.4e38, PixelType::BF16),
            (1e39, PixelType::F32),
        ] {
            let error = of(number, pixels).unwrap_err().to_string();
            assert!(error.contains("is not a value of type"), "{error}");
        }
        for number in [1e39, 3.4e38] {
            let error = of(number, PixelType::BF16).unwrap_err().to_string();
            assert!(error.ends_with("is not a value of type bfloat16"), "{error}");
        }
        let half = of(-1.5, PixelType::BF16).unwrap().unwrap();
        assert_eq!(half, NullSlot { number: bf16::from_f32(-1.5).to_ne_bytes().to_vec() });
        let text = Fill::from("none");
        let nulls = NullOptions { fill: Some(&text), is_masked: true };
        assert!(NullSlot::of_pixels(nulls, PixelType::F32).is_err());
    }
}
