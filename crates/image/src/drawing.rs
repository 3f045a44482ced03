//! Determines how an image is cropped and mirrored: by random draws, or like another image that it follows.

use super::drawn::Drawn;
use super::draws::RowKey;
use super::frame::Frame;
use super::placement::BoxesOfImage;
use super::spec::{Framing, Image, Size};

/// Determines how an image is cropped and mirrored: the key of its random draws, and, if it follows another
/// image (as a mask follows its photograph), the geometry of that image.
#[derive(Clone, Copy, Debug)]
pub struct Drawing<'a> {
    key: RowKey,
    of: Option<&'a Drawn>,
    boxes: BoxesOfImage<'a>,
}

impl<'a> Drawing<'a> {
    /// The drawing of an image that follows another one. `of` is the geometry of that other image.
    pub fn following(key: RowKey, of: &'a Drawn) -> Self {
        Drawing { key, of: Some(of), boxes: BoxesOfImage::default() }
    }

    /// Adds the image's boxes (left, top, right, bottom), for a random crop [around
    /// them](Image::random_iou_crop). If they are `normalized`, they are shares of the image's width and
    /// height, otherwise pixels.
    #[must_use]
    pub fn around(self, corners: &'a [[f64; 4]], normalized: bool) -> Self {
        Drawing { boxes: BoxesOfImage { corners, normalized }, ..self }
    }

    pub(super) fn key(self) -> RowKey {
        self.key
    }

    /// The crop, size and flips of an image of this width and height. If the spec applies the EXIF
    /// orientation, the width and the height are those of the turned image.
    pub(super) fn frame(self, image: &Image, width: u32, height: u32) -> Frame {
        let own = Frame::draw_around(image, width, height, self.key, self.boxes);
        let Some(of) = self.of else { return own };
        let shown = own.showing(of.frame.sampling.scaled(of.seen(), Size { height, width }));
        match image.framing {
            // The image has the same position as the one that it follows, on a canvas of the same size.
            Framing::RandomCrop(_) | Framing::ScaleJitter => {
                Frame { target: of.frame.target, corner: of.frame.corner, ..shown }
            }
            _ => shown,
        }
    }
}

impl From<RowKey> for Drawing<'_> {
    fn from(key: RowKey) -> Self {
        Drawing { key, of: None, boxes: BoxesOfImage::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Form, Workspace, decode_into, decode_within, encode_jpeg};

    fn jpeg(width: u32, height: u32) -> Vec<u8> {
        let level = |x: u32, y: u32, c: u32| ((x * 200 / width) + y * 40 / height + c * 7) as u8;
        let pixels =
            (0..height).flat_map(|y| (0..width).flat_map(move |x| (0..3).map(move |c| level(x, y, c))));
        encode_jpeg(&pixels.collect::<Vec<_>>(), width, height, 95).unwrap()
    }

    /// The pixels of an image that is cropped and mirrored like another image.
    fn following(image: &Image, file: &[u8], other: &Image, of: &[u8], key: RowKey) -> Vec<u8> {
        let drawn = Drawn::probe(other, of, key).unwrap();
        let mut slot = vec![0; image.bytes_per_image()];
        let workspace = Workspace::of_one(1 << 24);
        decode_within(&workspace, image, file, Drawing::following(key, &drawn), &mut slot).unwrap();
        slot
    }

    #[test]
    fn images_of_one_size_have_the_same_pixels() {
        let file = jpeg(160, 120);
        let colours = |image: Image| image.color_jitter(0.4, 0.4, 0.4, 0.1);
        for other in [
            Image::random_resized_crop(32).scale((0.2, 0.5)).flip().vertical_flip(),
            Image::random_resized_crop(32).random_rotation((-40.0, 40.0)),
            Image::center_crop(32).resize_shorter(40).flip(),
            Image::resize(32, 32).flip(),
        ] {
            let other = colours(other);
            for image in [colours(Image::resize(32, 32)), other.clone()] {
                let image = image.following("other").shown_as(&other).unwrap();
                for key in (0..20).map(RowKey) {
                    let mut expected = vec![0; other.bytes_per_image()];
                    decode_into(&other, &file, key, &mut expected).unwrap();
                    assert!(following(&image, &file, &other, &file, key) == expected, "{other}, {key:?}");
                }
            }
        }
    }

    #[test]
    fn the_part_is_a_share_of_each_image() {
        let (large, small) = (jpeg(320, 240), jpeg(80, 60));
        let other = Image::random_resized_crop(64).flip();
        let image = Image::resize(16, 16).following("other").shown_as(&other).unwrap();
        for key in (0..20).map(RowKey) {
            let of = Drawn::probe(&other, &large, key).unwrap();
            let own = Drawn::probe(&image, &small, Drawing::following(key, &of)).unwrap();
            let (of, own) = (of.numbers(), own.numbers());
            for at in 0..4 {
                assert!((of[at] / 4.0 - own[at]).abs() < 1e-3, "{of:?} {own:?}");
            }
            assert_eq!(of[4..6], own[4..6]);
        }
    }

    #[test]
    fn a_kept_image_follows_as_its_file_does() {
        let (large, small) = (jpeg(320, 240), jpeg(90, 120));
        let other = Image::random_resized_crop(48).scale((0.3, 1.0)).flip();
        let image = Image::resize(16, 16).following("other").shown_as(&other).unwrap();
        for form in [Form::Pixels, Form::Coefficients] {
            let kept = image.keep(form, &small).unwrap();
            assert!(kept[..] != small[..]);
            for key in (0..20).map(RowKey) {
                let truth = following(&image, &small, &other, &large, key);
                assert!(following(&image, &kept, &other, &large, key) == truth, "{form:?}");
            }
        }
    }

    #[test]
    fn what_differs_from_the_image_that_is_followed_is_refused() {
        let crop = Image::random_resized_crop(32).flip().random_rotation((0.0, 9.0));
        for (image, other, said) in [
            (Image::center_crop(32), &crop, "a crop or a canvas"),
            (Image::fit(32), &crop, "a crop or a canvas"),
            (Image::random_resized_crop(8).scale((0.5, 1.0)), &crop, "a crop or a canvas"),
            (Image::random_resized_crop(8), &Image::resize(4, 4), "a crop or a canvas"),
            (Image::center_crop(8), &Image::center_crop(9), "a crop or a canvas"),
            (Image::resize(8, 8).flip_with(1.0), &crop, "a flip"),
            (Image::resize(8, 8).vertical_flip(), &crop, "a flip"),
            (Image::resize(8, 8).random_rotation((0.0, 8.0)), &crop, "a rotation"),
        ] {
            let error = image.following("image").shown_as(other).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
        for image in [Image::resize(8, 9), Image::random_resized_crop(8).flip(), crop.clone()] {
            assert!(image.following("image").shown_as(&crop).unwrap().is_random());
        }
    }
}
