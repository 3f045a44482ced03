//! Random erasing: overwrites a random box of a delivered image, in its number type and layout.

use half::{bf16, f16};

use super::super::draws::Draws;
use super::super::geometry::Rect;
use super::super::pixel_type::{Layout, PixelType};
use super::super::spec::{Image, RGB, RandomErasing, Size};

/// The number of random boxes to try. If none of them fits, nothing is erased, as in torchvision.
const MAX_TRIES: usize = 10;

/// The box that is overwritten, and its content.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Erased {
    rect: Rect,
    value: [f32; RGB],
}

impl Erased {
    /// Draws a box that is smaller than an image of this size along both axes; `None` if no try gives such a
    /// box.
    pub(super) fn draw(erasing: &RandomErasing, size: Size, draws: &mut Draws) -> Option<Erased> {
        let area = f64::from(size.height) * f64::from(size.width);
        let log_ratio = (erasing.ratio.0.ln(), erasing.ratio.1.ln());
        for _ in 0..MAX_TRIES {
            let area = area * draws.uniform(erasing.scale);
            let aspect = draws.uniform(log_ratio).exp();
            let height = (area * aspect).sqrt().round_ties_even() as u32;
            let width = (area / aspect).sqrt().round_ties_even() as u32;
            if height < size.height && width < size.width {
                let y = draws.below(size.height - height + 1);
                let x = draws.below(size.width - width + 1);
                return Some(Erased { rect: Rect { x, y, width, height }, value: erasing.value });
            }
        }
        None
    }

    /// Overwrites the box in the slot of an image.
    pub(crate) fn fill(&self, image: &Image, slot: &mut [u8]) {
        match image.pixel_type() {
            PixelType::U8 => self.write(image, slot, |value| [value as u8]),
            PixelType::U16 => self.write(image, slot, |value| (value as u16).to_ne_bytes()),
            PixelType::F16 => self.write(image, slot, |value| f16::from_f32(value).to_ne_bytes()),
            PixelType::BF16 => self.write(image, slot, |value| bf16::from_f32(value).to_ne_bytes()),
            PixelType::F32 => self.write(image, slot, f32::to_ne_bytes),
        }
    }

    fn write<const BYTES: usize>(&self, image: &Image, slot: &mut [u8], of: impl Fn(f32) -> [u8; BYTES]) {
        let (slot, _) = slot.as_chunks_mut::<BYTES>();
        let (size, channels) = (image.size(), image.channels());
        let (width, plane) = (size.width as usize, size.width as usize * size.height as usize);
        let Rect { x, y, width: columns, height: rows } = self.rect;
        // The distance in the slot between neighbouring pixels of a row, and between the channels of a pixel.
        let (pixel, channel) = match image.pixel_layout() {
            Layout::Nhwc => (channels, 1),
            Layout::Nchw => (1, plane),
        };
        for row in y..y + rows {
            for column in x..x + columns {
                let first = (row as usize * width + column as usize) * pixel;
                for (number, value) in self.value.iter().take(channels).enumerate() {
                    slot[first + number * channel] = of(*value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RowKey;

    #[test]
    fn a_box_has_its_share_and_ratio() {
        let erasing = RandomErasing { p: 1.0, scale: (0.1, 0.2), ratio: (0.5, 2.0), value: [0.0; 3] };
        let size = Size { height: 100, width: 120 };
        for key in 0..500 {
            let Rect { x, y, width, height } =
                Erased::draw(&erasing, size, &mut Draws::new(RowKey(key))).unwrap().rect;
            assert!(x + width <= 120 && y + height <= 100);
            let share = f64::from(width * height) / 12_000.0;
            assert!((0.095..0.21).contains(&share), "{share}");
            assert!((0.47..2.1).contains(&(f64::from(height) / f64::from(width))));
        }
        let whole = RandomErasing { scale: (1.0, 1.0), ratio: (1.0, 1.0), ..erasing };
        assert_eq!(Erased::draw(&whole, size, &mut Draws::new(RowKey(0))), None);
    }

    #[test]
    fn every_layout_and_type_is_overwritten() {
        let erased = Erased { rect: Rect { x: 1, y: 0, width: 1, height: 2 }, value: [1.0, 2.0, 3.0] };
        let image = Image::resize(2, 3);
        let mut slot = [9; 18];
        erased.fill(&image, &mut slot);
        assert_eq!(slot, [9, 9, 9, 1, 2, 3, 9, 9, 9, 9, 9, 9, 1, 2, 3, 9, 9, 9]);
        let mut slot = [9; 18];
        erased.fill(&image.clone().layout(Layout::Nchw), &mut slot);
        assert_eq!(slot, [9, 1, 9, 9, 1, 9, 9, 2, 9, 9, 2, 9, 9, 3, 9, 9, 3, 9]);
        let mut slot = [0; 24];
        erased.fill(&image.grayscale().dtype(PixelType::F32), &mut slot);
        let floats: Vec<f32> = slot.as_chunks().0.iter().map(|four| f32::from_ne_bytes(*four)).collect();
        assert_eq!(floats, [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
    }
}
