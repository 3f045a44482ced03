//! The form in which a case has images: one for each row, views, clips of lists, or images with their
//! objects. It is described twice: to forebay and to the test.

use forebay::column::{Boxes, Clip, ClipLayout, FrameSampling, Masks};
use forebay::image::{AutoAugment, Interpolation};
use forebay::plan::{column_tag, view_key};
use forebay::samples::Frames;
use forebay::{Image, LoaderBuilder};
use forebay_image::{
    Drawing, Drawn, Instance, Layout, RowKey, Size, Workspace, decode_instance, decode_into,
};

use crate::chance::Chance;
use crate::table::{Object, TableOnDisk, polygon};

/// The columns of objects, as they are delivered.
pub(crate) const OF_OBJECTS: [&str; 3] = ["objects.box", "objects.label", "objects.mask"];

/// An object that a batch has: the sides of its box, its label and its mask.
pub(crate) type VisibleObject = ([f32; 4], i64, Vec<u8>);

/// A box is delivered if at least this share of its area is visible. Rounding may lower the share by
/// `ROUNDING`.
const MIN_VISIBLE: f64 = 0.4;
const ROUNDING: f64 = 1e-4;

/// The forms in which images are delivered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pictures {
    /// One image for each row.
    One,
    /// Two views of an image, one of them with two images for each row.
    Views,
    /// The list of images in each row, as one value.
    Clips(DrawnClip),
    /// An image with the objects in it, some of which a crop drops.
    Objects,
}

impl Pictures {
    /// The stored column of images.
    pub(crate) fn column(self) -> &'static str {
        if matches!(self, Pictures::Clips(_)) { "frames" } else { "image" }
    }

    /// Whether the table needs the columns of lists, which only some cases have.
    pub(crate) fn need_lists(self) -> bool {
        matches!(self, Pictures::Clips(_) | Pictures::Objects)
    }
}

/// Which images of a list are in a clip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DrawnClip {
    /// The number of images; `None` for all.
    frames: Option<usize>,
    stride: Option<usize>,
    sampling: FrameSampling,
    draws: Frames,
    channels_first: bool,
}

impl DrawnClip {
    pub(crate) fn draw(chance: &mut Chance) -> DrawnClip {
        let frames = (!chance.one_in(3)).then(|| chance.between(1, 4) as usize);
        let is_random = frames.is_some() && chance.one_in(2);
        DrawnClip {
            frames,
            stride: chance.one_in(3).then(|| chance.between(1, 3) as usize),
            sampling: if is_random { FrameSampling::Random } else { FrameSampling::Even },
            draws: if chance.one_in(3) { Frames::Alone } else { Frames::Together },
            channels_first: frames.is_some() && chance.one_in(3),
        }
    }

    /// Returns the clip to request from forebay, for lists of up to `most` images.
    pub(crate) fn clip(self, image: &Image, most: u32) -> Clip {
        let number = |number: usize| number as u32;
        let clip = Clip::new(image.clone()).sampling(self.sampling).draws(self.draws);
        let clip = if self.channels_first { clip.layout(ClipLayout::Ncthw) } else { clip };
        let clip = self.stride.map(number).into_iter().fold(clip, Clip::stride);
        match self.frames {
            Some(frames) => clip.frames(number(frames)),
            None => clip.at_most(most),
        }
    }

    /// Computes which images of a list are in the clip, directly from the definition.
    fn chosen(self, available: usize, key: RowKey) -> Vec<usize> {
        let stride = self.stride.unwrap_or(1);
        let Some(frames) = self.frames else { return (0..available).step_by(stride).collect() };
        let share =
            |number: usize| view_key(key.0, column_tag("frames"), number as u32) as f64 / 2f64.powi(64);
        let is_random = self.sampling == FrameSampling::Random;
        if self.stride.is_some() {
            let beyond = available.saturating_sub((frames - 1) * stride + 1);
            let first = if is_random { (share(0) * (beyond + 1) as f64) as usize } else { beyond / 2 };
            return (0..frames).map(|at| (first + at * stride).min(available - 1)).collect();
        }
        let place = |at: usize| at as f64 + if is_random { share(at) } else { 0.5 };
        (0..frames).map(|at| (place(at) * available as f64 / frames as f64) as usize).collect()
    }

    /// The random numbers of image `number` of a row's list.
    fn key(self, number: usize, key: RowKey) -> RowKey {
        let alone = RowKey(view_key(key.0, column_tag("frame"), number as u32));
        if self.draws == Frames::Alone { alone } else { key }
    }

    /// Returns the heights and widths of the images of a row's clip on their canvases.
    pub(crate) fn sizes(self, image: &Image, files: &[Vec<u8>], key: RowKey) -> Vec<i32> {
        let drawn = self.chosen(files.len(), key).into_iter().flat_map(|number| {
            let Size { height, width } =
                Drawn::probe(image, &files[number], self.key(number, key)).unwrap().target();
            [height, width].map(|side| side as i32)
        });
        drawn.collect()
    }

    /// Returns the number of images in a row's clip, and the bytes of the clip.
    pub(crate) fn expected(self, image: &Image, files: &[Vec<u8>], key: RowKey) -> (usize, Vec<u8>) {
        let image = if self.channels_first { image.clone().layout(Layout::Nchw) } else { image.clone() };
        let decoded = self.chosen(files.len(), key).into_iter().map(|number| {
            let mut pixels = vec![0; image.bytes_per_image()];
            decode_into(&image, &files[number], self.key(number, key), &mut pixels).unwrap();
            pixels
        });
        let decoded: Vec<Vec<u8>> = decoded.collect();
        if !self.channels_first {
            return (decoded.len(), decoded.concat());
        }
        let channel = image.bytes_per_image() / image.channels();
        let of = |number: usize| decoded.iter().flat_map(move |pixels| pixels.chunks(channel).nth(number));
        (decoded.len(), (0..image.channels()).flat_map(of).flatten().copied().collect())
    }
}

/// Draws an image operation that keeps the aspect ratio of images, each on a canvas.
pub(crate) fn on_canvas(chance: &mut Chance) -> Image {
    match chance.below(3) {
        0 => Image::fit((13, 11)).resize_shorter(9).fill([7.0; 3]).flip(),
        1 => Image::random_shortest_size(vec![8, 10, 12], 16).centered().flip(),
        _ => Image::scale_jitter(12).scale((0.5, 1.5)).vertical_flip(),
    }
}

/// Draws an image operation that moves the objects along with their image.
pub(crate) fn of_objects(chance: &mut Chance) -> Image {
    match chance.below(4) {
        0 => Image::random_iou_crop(9, OF_OBJECTS[0]).flip(),
        1 => Image::random_resized_crop((8, 11)).scale((0.2, 0.6)).flip().vertical_flip(),
        2 => Image::random_crop(14).padding(2).flip(),
        _ => Image::center_crop(9).resize_shorter(12),
    }
}

/// Adds random changes to an image. If `is_gentle`, the changes move nothing, and pixels that
/// differ slightly stay similar.
pub(crate) fn augmented(image: Image, chance: &mut Chance, is_gentle: bool) -> Image {
    let image = if image.channels() == 1 { image } else { image.color_jitter(0.4, 0.4, 0.4, 0.1) };
    match chance.below(if is_gentle { 3 } else { 8 }) {
        0 => image.random_invert(0.5),
        1 => image.gaussian_blur_with(0.5, 3, (0.1, 2.0)).random_posterize(7, 0.5),
        2 => image.random_erasing(0.7),
        3 => image.auto_augment(AutoAugment::rand(2, 9)),
        4 => {
            let wide = AutoAugment::trivial_wide().interpolation(Interpolation::Bilinear).fill([9, 70, 200]);
            image.auto_augment(wide).random_erasing(0.5)
        }
        5 => image.auto_augment(AutoAugment::imagenet()),
        6 => image.auto_augment(AutoAugment::aug_mix(5, 2)),
        _ => {
            let image = image.random_solarize(100.0, 0.5).random_adjust_sharpness(3.0, 0.5);
            image.random_autocontrast(0.5).random_equalize(0.5).random_rotation((-30.0, 30.0))
        }
    }
}

/// Asks for an image and its objects.
pub(crate) fn with_objects(builder: LoaderBuilder, image: &Image) -> LoaderBuilder {
    let [boxes, _, masks] = OF_OBJECTS;
    builder
        .decode("image", image.clone())
        .follow(boxes, Boxes::following("image").min_visible(MIN_VISIBLE).along(["objects.*"]))
        .follow(masks, Masks::following("image"))
}

/// The objects of a row that are delivered, moved with their image: sides, label and mask.
pub(crate) fn visible(table: &TableOnDisk, image: &Image, id: u64, key: RowKey) -> Vec<VisibleObject> {
    let corners = table.corners(id);
    let drawing = Drawing::from(key).around(&corners, false);
    let drawn = Drawn::probe(image, &table.image(id).unwrap(), drawing).unwrap();
    let area = |[left, top, right, bottom]: [f64; 4]| (right - left) * (bottom - top);
    let objects = table.objects(id).into_iter().filter_map(|Object { corners, label }| {
        let whole = drawn.corners(corners);
        let seen = drawn.clipped(whole);
        if area(seen) / area(whole) < MIN_VISIBLE * (1.0 - ROUNDING) {
            return None;
        }
        let mut mask = vec![0; (image.size().height * image.size().width) as usize];
        let (points, workspace) = (polygon(corners), Workspace::of_loader(1 << 26, 1));
        let instance = Instance::Polygons(&[&points]);
        decode_instance(&workspace, image, &drawn, instance, None, &mut mask).unwrap();
        Some((seen.map(|side| side as f32), label, mask))
    });
    objects.collect()
}
