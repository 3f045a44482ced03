//! Places images that are smaller than their canvas (the delivered size) in its upper left corner or its
//! middle.

use half::{bf16, f16};

use super::geometry::Corner;
use super::pixel_type::{Layout, PixelType};
use super::spec::{Image, Size};

/// Moves an image of the size `shown` from the start of the slot to its position on the canvas, and fills the
/// rest of the canvas.
pub(super) fn spread_image(image: &Image, shown: Size, corner: Corner, slot: &mut [u8]) {
    match image.pixel_type() {
        PixelType::U8 => spread_type(image, shown, corner, slot, |value| [value as u8]),
        PixelType::U16 => spread_type(image, shown, corner, slot, |value| (value as u16).to_ne_bytes()),
        PixelType::F16 => spread_type(image, shown, corner, slot, |value| f16::from_f32(value).to_ne_bytes()),
        PixelType::BF16 => {
            spread_type(image, shown, corner, slot, |value| bf16::from_f32(value).to_ne_bytes())
        }
        PixelType::F32 => spread_type(image, shown, corner, slot, f32::to_ne_bytes),
    }
}

fn spread_type<const BYTES: usize>(
    image: &Image,
    shown: Size,
    corner: Corner,
    slot: &mut [u8],
    bytes_of: impl Fn(f32) -> [u8; BYTES],
) {
    let (canvas, channels) = (image.size(), image.channels());
    let fill = image.fill.unwrap_or_default().map(bytes_of);
    let fill = fill[..channels].as_flattened();
    if image.pixel_layout() == Layout::Nhwc {
        return spread(slot, shown, corner, canvas, fill);
    }
    let area = |size: Size| size.height as usize * size.width as usize * BYTES;
    // The last plane is moved first, so that no plane is overwritten before it is moved.
    for (plane, fill) in fill.chunks_exact(BYTES).enumerate().rev() {
        let from = plane * area(shown);
        slot.copy_within(from..from + area(shown), plane * area(canvas));
        spread(&mut slot[plane * area(canvas)..][..area(canvas)], shown, corner, canvas, fill);
    }
}

/// Moves the rows of an image of the size `shown` from the start of a plane to their positions on the canvas,
/// where `corner` is the image's upper left corner. Fills the rest of the canvas with `pixel`.
pub(super) fn spread(plane: &mut [u8], shown: Size, corner: Corner, canvas: Size, pixel: &[u8]) {
    let (from, to) = (shown.width as usize * pixel.len(), canvas.width as usize * pixel.len());
    let (left, top) = (corner.left as usize * pixel.len(), corner.top as usize);
    let height = shown.height as usize;
    if from < to || top > 0 {
        // The last row is moved first, so that no row is overwritten before it is moved.
        for row in (0..height).rev() {
            let begin = (top + row) * to;
            plane.copy_within(row * from..(row + 1) * from, begin + left);
            fill(&mut plane[begin..begin + left], pixel);
            fill(&mut plane[begin + left + from..begin + to], pixel);
        }
    }
    fill(&mut plane[..top * to], pixel);
    fill(&mut plane[(top + height) * to..], pixel);
}

fn fill(bytes: &mut [u8], pixel: &[u8]) {
    match pixel {
        [first, others @ ..] if others.iter().all(|byte| byte == first) => bytes.fill(*first),
        _ => bytes.chunks_exact_mut(pixel.len()).for_each(|to| to.copy_from_slice(pixel)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::geometry::corner;
    use super::*;

    fn spread(image: &Image, shown: Size, slot: &mut [u8]) {
        spread_image(image, shown, corner(image, shown), slot);
    }

    const SHOWN: Size = Size { height: 2, width: 1 };

    #[test]
    fn pixels_move_to_their_rows() {
        let image = Image::fit((3, 2)).fill([7.0, 8.0, 9.0]);
        let mut slot = [99; 18];
        slot[..6].copy_from_slice(&[1, 2, 3, 4, 5, 6]);
        spread(&image, SHOWN, &mut slot);
        assert_eq!(slot, [1, 2, 3, 7, 8, 9, 4, 5, 6, 7, 8, 9, 7, 8, 9, 7, 8, 9]);
    }

    #[test]
    fn planes_move_apart() {
        let image = Image::fit((3, 2)).fill([7.0, 8.0, 9.0]).layout(Layout::Nchw);
        let mut slot = [99; 18];
        slot[..6].copy_from_slice(&[1, 4, 2, 5, 3, 6]);
        spread(&image, SHOWN, &mut slot);
        assert_eq!(slot, [1, 7, 4, 7, 7, 7, 2, 8, 5, 8, 8, 8, 3, 9, 6, 9, 9, 9]);
    }

    #[test]
    fn a_centered_image_is_in_the_middle() {
        let one = Size { height: 1, width: 1 };
        for (canvas, shown, wanted) in [
            ((3, 3), one, [7, 7, 7, 7, 1, 7, 7, 7, 7]),
            ((3, 3), SHOWN, [7, 1, 7, 7, 2, 7, 7, 7, 7]),
            ((3, 3), Size { height: 1, width: 2 }, [7, 7, 7, 1, 2, 7, 7, 7, 7]),
            ((3, 3), Size { height: 1, width: 3 }, [7, 7, 7, 1, 2, 3, 7, 7, 7]),
            ((3, 3), Size { height: 3, width: 1 }, [7, 1, 7, 7, 2, 7, 7, 3, 7]),
        ] {
            let image = Image::fit(canvas).centered().fill([7.0; 3]).grayscale();
            let mut slot = [1, 2, 3, 99, 99, 99, 99, 99, 99];
            spread(&image, shown, &mut slot);
            assert_eq!(slot, wanted);
        }
        let image = Image::fit((3, 3)).centered().fill([7.0, 8.0, 9.0]).layout(Layout::Nchw);
        let mut slot = [99; 27];
        slot[..3].copy_from_slice(&[1, 2, 3]);
        spread(&image, one, &mut slot);
        assert_eq!((slot[4], slot[13], slot[22]), (1, 2, 3));
        assert_eq!((slot[0], slot[9], slot[26]), (7, 8, 9));
    }

    #[test]
    fn every_type_is_filled() {
        let grey = Image::fit((1, 2)).fill([-1.5; 3]).grayscale();
        let shown = Size { height: 1, width: 1 };
        for layout in Layout::ALL {
            let mut slot = [0; 8];
            slot[..4].copy_from_slice(&2.5f32.to_ne_bytes());
            spread(&grey.clone().layout(layout).dtype(PixelType::F32), shown, &mut slot);
            assert_eq!(
                slot.as_chunks().0.iter().map(|four| f32::from_ne_bytes(*four)).collect::<Vec<_>>(),
                [2.5, -1.5]
            );
        }
        let mut slot = [0; 4];
        spread(&grey.dtype(PixelType::F16), shown, &mut slot);
        assert_eq!(slot[2..], f16::from_f32(-1.5).to_ne_bytes());
    }
}
