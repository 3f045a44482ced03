//! Delivers bounding boxes that follow an image.

use forebay_arrow::array::ArrayRef;
use forebay_arrow::datatypes::{Field, FieldRef};
use forebay_base::{Error, ErrorKind, Result};
use forebay_image::{Drawn, Size};
use forebay_store::source::{is_pattern, matches_name};
use serde::{Deserialize, Serialize};

use super::Followed;
use super::tuples::{TupleRows, Tuples, field, stored_width};
use crate::column::{FollowImage, FollowedRows, GatheredRows, Noun, NullOptions};

/// The number of numbers in a box.
const NUMBERS: usize = 4;

/// The fraction by which `min_visible` is lowered, because rounding the side of a box to a float32 can move
/// the side slightly beyond the border of the image.
const ROUNDING: f64 = 1e-4;

/// The meaning of the four numbers of a box.
///
/// ```
/// use forebay::column::{BoxFormat, Boxes};
///
/// let coco = Boxes::following("image").format(BoxFormat::Xywh);
/// assert_ne!(coco, Boxes::following("image"));
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoxFormat {
    /// Left, top, right, bottom, as in Pascal VOC. This is the default.
    #[default]
    Xyxy,
    /// Left, top, width, height, as in COCO.
    Xywh,
    /// Centre, width, height, as in YOLO.
    Cxcywh,
}

impl BoxFormat {
    /// All formats.
    pub const ALL: [BoxFormat; 3] = [BoxFormat::Xyxy, BoxFormat::Xywh, BoxFormat::Cxcywh];

    /// The name of the format in Python.
    pub const fn name(self) -> &'static str {
        match self {
            BoxFormat::Xyxy => "xyxy",
            BoxFormat::Xywh => "xywh",
            BoxFormat::Cxcywh => "cxcywh",
        }
    }

    /// Converts a box of this format to its left, top, right and bottom side.
    fn corners(self, [a, b, c, d]: [f64; NUMBERS]) -> [f64; NUMBERS] {
        match self {
            BoxFormat::Xyxy => [a, b, c, d],
            BoxFormat::Xywh => [a, b, a + c, b + d],
            BoxFormat::Cxcywh => [a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0],
        }
    }

    /// Converts the sides of a box to this format.
    fn of_corners(self, [left, top, right, bottom]: [f64; NUMBERS]) -> [f64; NUMBERS] {
        let (width, height) = (right - left, bottom - top);
        match self {
            BoxFormat::Xyxy => [left, top, right, bottom],
            BoxFormat::Xywh => [left, top, width, height],
            BoxFormat::Cxcywh => [left + width / 2.0, top + height / 2.0, width, height],
        }
    }
}

/// A column of boxes that follow an image: they are cropped, resized and mirrored with it.
///
/// The column is stored as lists of lists of four numbers: int32, int64, float32 or float64. It is delivered
/// as lists of float32 boxes in the same [format](Boxes::format), in pixels of the delivered image, or in
/// [another](Boxes::out_format), or as [shares](Boxes::out_normalized) of its size. Each box is clipped to
/// its visible part. A box that is not visible at all becomes an empty one at the border, as torchvision's
/// `ClampBoundingBoxes` makes it, so that boxes and labels stay side by side;
/// [`min_visible`](Boxes::min_visible), [`center_visible`](Boxes::center_visible) and
/// [`min_size`](Boxes::min_size) drop such boxes instead.
///
/// If an image is rotated, the visible part of a box is rotated too, and the upright box around the result is
/// clipped again.
///
/// A row is bad if it is null, if a box does not have four finite numbers, or if the right or bottom side of
/// a box comes before the left or top side. With [`null_mask`](crate::LoaderBuilder::null_mask), a null is
/// delivered as an empty list of boxes; so are the boxes of a null image, if null images are delivered.
///
/// ```
/// use forebay::Image;
/// use forebay::column::{BoxFormat, Boxes};
///
/// # fn build(dataset: forebay::Dataset) -> forebay::Result<forebay::Loader> {
/// let boxes = Boxes::following("image").format(BoxFormat::Xywh).min_visible(0.1).along(["labels"]);
/// dataset
///     .loader()
///     .decode("image", Image::random_resized_crop(224).flip())
///     .follow("boxes", boxes)
///     .build()
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boxes {
    pub(super) of: String,
    #[serde(default)]
    format: BoxFormat,
    #[serde(default)]
    normalized: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    out_format: Option<BoxFormat>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    out_normalized: bool,
    #[serde(default)]
    min_visible: f64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    center_visible: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    min_size: f64,
    #[serde(default)]
    along: Vec<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

impl Boxes {
    /// Boxes that follow the image in the column `image`.
    pub fn following(image: impl Into<String>) -> Boxes {
        Boxes {
            of: image.into(),
            format: BoxFormat::default(),
            normalized: false,
            out_format: None,
            out_normalized: false,
            min_visible: 0.0,
            center_visible: false,
            min_size: 0.0,
            along: Vec::new(),
        }
    }

    /// The format of the stored boxes, and of the delivered boxes unless [`out_format`](Boxes::out_format) is
    /// set. Default: [`BoxFormat::Xyxy`].
    #[must_use]
    pub fn format(self, format: BoxFormat) -> Boxes {
        Boxes { format, ..self }
    }

    /// Whether stored numbers are fractions of the image's width and height, from 0 to 1, instead of pixels.
    /// Default: false.
    #[must_use]
    pub fn normalized(self, normalized: bool) -> Boxes {
        Boxes { normalized, ..self }
    }

    /// The format of the delivered boxes. Default: the format of the stored boxes.
    #[must_use]
    pub fn out_format(self, format: BoxFormat) -> Boxes {
        Boxes { out_format: Some(format), ..self }
    }

    /// Whether delivered numbers are fractions of the width and height of the delivered array, from 0 to 1,
    /// instead of pixels; for ragged images, they are fractions of each image's own size. Default: false.
    #[must_use]
    pub fn out_normalized(self, normalized: bool) -> Boxes {
        Boxes { out_normalized: normalized, ..self }
    }

    /// The smallest fraction of a box's area, from 0 to 1, that must be visible; a box with less is dropped.
    /// If this is above 0, boxes without area are dropped too. Default: 0, which drops no box.
    #[must_use]
    pub fn min_visible(self, share: f64) -> Boxes {
        Boxes { min_visible: share, ..self }
    }

    /// Whether to drop boxes whose centre is outside the crop or on its border, as torchvision's
    /// `RandomIoUCrop` does, and boxes without area. A random rotation is not considered. Default: false.
    #[must_use]
    pub fn center_visible(self, center_visible: bool) -> Boxes {
        Boxes { center_visible, ..self }
    }

    /// The least width and height of a delivered box, in pixels of the delivered image: boxes with a shorter
    /// side are dropped, as with the `min_size` of torchvision's `SanitizeBoundingBoxes`. It is in pixels
    /// with [`out_normalized`](Boxes::out_normalized) too. Default: 0, which drops no box.
    #[must_use]
    pub fn min_size(self, pixels: f64) -> Boxes {
        Boxes { min_size: pixels, ..self }
    }

    /// Columns of lists with one item for each box, such as labels: the items of dropped boxes are dropped as
    /// well. A name may be a pattern, such as `objects.*`, which never selects the column of boxes itself.
    /// The columns may follow the image too, as keypoints and instance masks do. A list with another number
    /// of items is a bad row. Default: none.
    #[must_use]
    pub fn along<S: Into<String>>(self, columns: impl IntoIterator<Item = S>) -> Boxes {
        Boxes { along: columns.into_iter().map(Into::into).collect(), ..self }
    }

    /// The names and patterns of the columns that have an item for each box.
    pub(crate) fn columns_along(&self) -> &[String] {
        &self.along
    }

    /// Whether `along` lists a column by its name, and not only by a pattern that matches it.
    pub(crate) fn names(&self, column: &str) -> bool {
        self.along.iter().any(|along| along == column)
    }

    /// Whether a column is listed in `along`, so that it has an item for each box.
    pub(crate) fn takes_along(&self, column: &str) -> bool {
        self.along.iter().any(|along| along == column || is_pattern(along) && matches_name(along, column))
    }

    pub(super) fn is_normalized(&self) -> bool {
        self.normalized
    }

    /// The sides of a row's stored boxes, in stored units; `None` if the right or bottom side of a box comes
    /// before its left or top side.
    pub(super) fn stored_corners(&self, stored: &[f64]) -> Option<Vec<[f64; NUMBERS]>> {
        let corners = stored.as_chunks::<NUMBERS>().0.iter().map(|numbers| self.format.corners(*numbers));
        let corners: Vec<_> = corners.collect();
        corners.iter().all(|[l, t, r, b]| l <= r && t <= b).then_some(corners)
    }

    /// Converts the sides of a box to the numbers that are delivered in an image of this size.
    fn made(&self, [left, top, right, bottom]: [f64; NUMBERS], size: Size) -> [f64; NUMBERS] {
        let (x, y) = match self.out_normalized {
            true => (f64::from(size.width), f64::from(size.height)),
            false => (1.0, 1.0),
        };
        self.out_format.unwrap_or(self.format).of_corners([left / x, top / y, right / x, bottom / y])
    }

    /// Whether some boxes may be dropped.
    fn drops(&self) -> bool {
        self.min_visible > 0.0 || self.center_visible || self.min_size > 0.0
    }

    /// Returns an error if the settings are invalid or contradict each other.
    fn validate(&self) -> Result<()> {
        if !(0.0..=1.0).contains(&self.min_visible) {
            return Err(Error::invalid(format!("boxes with min_visible {}", self.min_visible))
                .hint("give the visible share of a box as a number from 0 to 1"));
        }
        if !(0.0..f64::INFINITY).contains(&self.min_size) {
            return Err(Error::invalid(format!("boxes with min_size {}", self.min_size))
                .hint("give the least side of a box in pixels, as a number of 0 or more"));
        }
        if !self.drops() && !self.along.is_empty() {
            return Err(Error::invalid("`along` names columns, but no boxes are dropped")
                .hint("set `min_visible` or `min_size` above 0 or `center_visible`, or leave out `along`"));
        }
        Ok(())
    }

    /// The visible sides of the boxes of a row, in pixels of the delivered image; `None` for a box that is
    /// dropped.
    pub(super) fn visible<'a>(
        &'a self,
        stored: &'a [f64],
        drawn: &'a Drawn,
    ) -> impl Iterator<Item = Result<Option<[f64; NUMBERS]>>> + 'a {
        let Size { height, width } = drawn.seen();
        let (x, y) = if self.normalized { (f64::from(width), f64::from(height)) } else { (1.0, 1.0) };
        stored.as_chunks::<NUMBERS>().0.iter().enumerate().map(move |(at, &[a, b, c, d])| {
            let corners = self.format.corners([a * x, b * y, c * x, d * y]);
            let [left, top, right, bottom] = corners;
            if right < left || bottom < top {
                let cause = format!("a box whose right or bottom side comes first, number {at} of the boxes");
                return Err(Error::new(ErrorKind::BadRow, cause)
                    .hint("check whether the boxes have another `format`"));
            }
            let whole = drawn.corners(corners);
            let mut seen = drawn.clipped(whole);
            let mut share = area(seen) / area(whole);
            let least = self.min_visible * (1.0 - ROUNDING);
            if let Some(turned) = drawn.turned(seen) {
                seen = drawn.clipped(turned);
                if share > 0.0 {
                    share *= area(seen) / area(turned);
                } else if area(whole) > 0.0 {
                    // The box was invisible before the rotation, so it remains empty afterwards.
                    seen = [seen[0], seen[1], seen[0], seen[1]];
                }
            }
            let is_hidden = || {
                share < least
                    || is_shorter(seen, self.min_size)
                    || self.center_visible && !drawn.shows((left + right) / 2.0, (top + bottom) / 2.0)
            };
            let is_dropped = self.drops() && (area(whole) == 0.0 || is_hidden());
            Ok((!is_dropped).then_some(seen))
        })
    }
}

/// Whether a side of a box is shorter than `least` after rounding to float32, the type of delivered boxes.
fn is_shorter(sides: [f64; NUMBERS], least: f64) -> bool {
    let [left, top, right, bottom] = sides.map(|side| side as f32);
    f64::from((right - left).min(bottom - top)) < least
}

fn area([left, top, right, bottom]: [f64; NUMBERS]) -> f64 {
    (right - left) * (bottom - top)
}

/// The codec that delivers boxes.
#[derive(Debug)]
pub(crate) struct BoxesCodec {
    boxes: Boxes,
    followed: Followed,
    /// Whether a null is delivered as an empty list, instead of being a bad row.
    is_masked: bool,
}

impl BoxesCodec {
    pub(crate) fn new(boxes: Boxes, followed: Followed, nulls: NullOptions<'_>) -> Self {
        BoxesCodec { boxes, followed, is_masked: nulls.is_masked }
    }
}

/// Returns an error if the stored type cannot contain boxes.
pub(super) fn check_stored(stored: &Field) -> Result<()> {
    match stored_width(stored.data_type())? {
        None | Some(NUMBERS) => Ok(()),
        Some(other) => Err(Error::invalid(format!("holds lists of {other} numbers, and a box has 4"))),
    }
}

/// Reads the boxes of all rows of a gathered column.
pub(super) fn stored(gathered: &ArrayRef) -> Result<Tuples<'_>> {
    Tuples::new(gathered.as_ref(), NUMBERS)
}

impl FollowImage for BoxesCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        self.boxes.validate()?;
        check_stored(stored)?;
        Ok(field(stored.name(), NUMBERS))
    }

    fn image(&self) -> usize {
        self.followed.column
    }

    fn takes_mask(&self) -> bool {
        true
    }

    fn follow(&self, gathered: ArrayRef, rows: &dyn FollowedRows) -> Result<GatheredRows> {
        let stored = stored(&gathered)?;
        let mut made = TupleRows::new(NUMBERS);
        let bad = self.followed.each_row(rows, |row, drawn| {
            let mut fill = || {
                let Some(drawn) = drawn else { return Ok(()) };
                if self.is_masked && stored.is_null(row) {
                    return Ok(());
                }
                for visible in self.boxes.visible(stored.row(row, "boxes")?, drawn) {
                    let size = self.followed.delivered_size(drawn);
                    visible?.into_iter().for_each(|sides| made.push(self.boxes.made(sides, size)));
                }
                Ok(())
            };
            let filled = fill();
            made.end_row();
            filled
        })?;
        Ok((made.finish()?, bad))
    }

    fn noun(&self) -> Noun {
        Noun { one: "a list of boxes", several: "boxes" }
    }
}

#[cfg(test)]
mod tests {
    use forebay_image::{Image, RowKey, encode_jpeg};

    use super::*;

    /// A geometry that crops the middle 20 x 20 pixels of a 40 x 30 image, and doubles their size.
    fn drawn() -> Drawn {
        let jpeg = encode_jpeg(&[0; 40 * 30 * 3], 40, 30, 90).unwrap();
        let image = Image::center_crop(40).resize_shorter(60);
        Drawn::probe(&image, &jpeg, RowKey(0)).unwrap()
    }

    fn made(boxes: &Boxes, stored: &[f64]) -> Vec<Option<[f64; 4]>> {
        made_by(boxes, stored, &drawn())
    }

    fn made_by(boxes: &Boxes, stored: &[f64], drawn: &Drawn) -> Vec<Option<[f64; 4]>> {
        let visible = boxes.visible(stored, drawn).collect::<Result<Vec<_>>>().unwrap();
        visible.into_iter().map(|sides| Some(boxes.made(sides?, Size::from(40)))).collect()
    }

    #[test]
    fn sides_and_numbers_of_a_format_are_one_box() {
        let sides = [8.0, 12.0, 14.0, 13.0];
        for (format, numbers) in [
            (BoxFormat::Xyxy, sides),
            (BoxFormat::Xywh, [8.0, 12.0, 6.0, 1.0]),
            (BoxFormat::Cxcywh, [11.0, 12.5, 6.0, 1.0]),
        ] {
            assert_eq!((format.corners(numbers), format.of_corners(sides)), (sides, numbers), "{format:?}");
        }
    }

    #[test]
    fn every_format_is_the_same_box() {
        let box_of = |format| Boxes::following("image").format(format);
        assert_eq!(
            made(&box_of(BoxFormat::Xyxy), &[5.0, 10.0, 15.0, 20.0])[0],
            Some([0.0, 10.0, 10.0, 30.0])
        );
        assert_eq!(
            made(&box_of(BoxFormat::Xywh), &[5.0, 10.0, 10.0, 10.0])[0],
            Some([0.0, 10.0, 10.0, 20.0])
        );
        let centred = box_of(BoxFormat::Cxcywh);
        assert_eq!(made(&centred, &[10.0, 15.0, 10.0, 10.0])[0], Some([5.0, 20.0, 10.0, 20.0]));
        let shares = centred.normalized(true);
        assert_eq!(made(&shares, &[0.25, 0.5, 0.25, 1.0 / 3.0])[0], Some([5.0, 20.0, 10.0, 20.0]));
        let other = shares.out_format(BoxFormat::Xywh).out_normalized(true);
        assert_eq!(made(&other, &[0.25, 0.5, 0.25, 1.0 / 3.0])[0], Some([0.0, 0.25, 0.25, 0.5]));
    }

    #[test]
    fn a_box_with_too_little_to_see_is_dropped() {
        let stored = [5.0, 10.0, 15.0, 20.0, 0.0, 0.0, 10.0, 10.0, 12.0, 12.0, 12.0, 20.0];
        let kept = |share| {
            let boxes = Boxes::following("image").min_visible(share);
            made(&boxes, &stored).iter().map(Option::is_some).collect::<Vec<_>>()
        };
        // The crop contains half of the first box and no part of the second; the third box has no area.
        assert_eq!(kept(0.0), [true, true, true]);
        assert_eq!(kept(1e-9), [true, false, false]);
        assert_eq!(kept(0.5), [true, false, false]);
        assert_eq!(kept(0.51), [false, false, false]);
        // The right side of the box is at the border of the crop, 30, but was rounded to a larger float32.
        let boxes = Boxes::following("image").min_visible(1.0);
        assert!(made(&boxes, &[20.0, 10.0, 30.000_002, 20.0])[0].is_some());
    }

    #[test]
    fn a_box_whose_centre_is_not_to_be_seen_is_dropped() {
        let boxes = Boxes::following("image").center_visible(true);
        // The crop begins at (10, 5). The first three boxes have their centres inside the crop, on its border
        // and outside; the fourth has no area.
        let stored =
            [8.0, 4.0, 13.0, 8.0, 5.0, 10.0, 15.0, 20.0, 0.0, 0.0, 12.0, 30.0, 12.0, 9.0, 12.0, 20.0];
        let kept = |boxes: &Boxes| made(boxes, &stored).iter().map(Option::is_some).collect::<Vec<_>>();
        assert_eq!(kept(&boxes), [true, false, false, false]);
        assert_eq!(kept(&boxes.min_visible(0.5)), [false; 4], "both conditions must hold");
    }

    /// The angles and boxes are random. The visible part of a box is turned corner by corner.
    #[test]
    fn a_box_that_is_turned_shows_no_more_than_was_visible_before() {
        let jpeg = encode_jpeg(&[0; 40 * 30 * 3], 40, 30, 90).unwrap();
        let mut bits = 7u64;
        let mut random = |below: u64| {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (bits >> 33) % below
        };
        let is_near = |found: [f64; 4], wanted: [f64; 4]| {
            found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-6)
        };
        let (mut hidden, mut shown, mut dropped) = (0, 0, 0);
        for _ in 0..1_000 {
            let degrees = random(361) as f64 - 180.0;
            let image = Image::center_crop(40).resize_shorter(60).random_rotation((degrees, degrees));
            let drawn = Drawn::probe(&image, &jpeg, RowKey(0)).unwrap();
            let (left, top) = (random(39) as f64, random(29) as f64);
            let (right, bottom) = (left + 1.0 + random(12) as f64, top + 1.0 + random(12) as f64);
            let stored = [left, top, right.min(40.0), bottom.min(30.0)];
            let found = made(&Boxes::following("image"), &stored)[0];
            let place = format!("{stored:?} turned by {degrees}");
            // The crop begins at (10, 5), and is delivered at twice the size, with 40 x 40 pixels.
            let moved = [0, 1, 2, 3].map(|side| 2.0 * (stored[side] - [10.0, 5.0][side % 2]));
            let clipped = |sides: [f64; 4]| sides.map(|side| side.clamp(0.0, 40.0));
            let visible = clipped(moved);
            let turned_sides = made_by(&Boxes::following("image"), &stored, &drawn)[0].unwrap();
            assert!(is_near(found.unwrap(), visible), "{place}, without the rotation");
            if area(visible) == 0.0 {
                hidden += 1;
                assert_eq!(area(turned_sides), 0.0, "{place} was not visible");
                assert!(turned_sides.iter().all(|side| (0.0..=40.0).contains(side)), "{place}");
                continue;
            }
            let (sine, cosine) = degrees.to_radians().sin_cos();
            let [left, top, right, bottom] = visible.map(|side| side - 20.0);
            let corners = [(left, top), (right, top), (left, bottom), (right, bottom)];
            let corners = corners.map(|(x, y)| (x * cosine + y * sine, y * cosine - x * sine));
            let (mut around, far) = ([f64::MAX, f64::MAX, f64::MIN, f64::MIN], 20.0);
            for (x, y) in corners {
                around = [around[0].min(x), around[1].min(y), around[2].max(x), around[3].max(y)];
            }
            let around = around.map(|side| side + far);
            assert!(is_near(turned_sides, clipped(around)), "{place}: {turned_sides:?}");
            shown += 1;
            let share = area(visible) / area(moved) * area(clipped(around)) / area(around);
            let is_kept = made_by(&Boxes::following("image").min_visible(0.5), &stored, &drawn)[0].is_some();
            assert!(is_kept == (share >= 0.5) || (share - 0.5).abs() < 1e-3, "{place}: {share}");
            dropped += u32::from(!is_kept);
        }
        assert!(hidden > 100 && shown > 100 && dropped > 30, "{hidden}, {shown}, {dropped}");
    }

    #[test]
    fn a_box_with_a_side_that_is_too_short_is_dropped() {
        // The crop begins at (10, 5) and is shown at twice the size. The visible parts of the four boxes are
        // 6 x 8, 4 x 28, nothing, and 16 x 2 pixels.
        let stored = [12.0, 6.0, 15.0, 10.0, 5.0, 6.0, 12.0, 20.0, 0.0, 0.0, 9.0, 9.0, 12.0, 9.0, 20.0, 10.0];
        let kept = |boxes: &Boxes| made(boxes, &stored).iter().map(Option::is_some).collect::<Vec<_>>();
        let boxes = Boxes::following("image").min_size(4.0);
        assert_eq!(kept(&boxes), [true, true, false, false]);
        assert_eq!(kept(&boxes.clone().out_normalized(true)), [true, true, false, false]);
        assert_eq!(kept(&boxes.clone().min_visible(0.5)), [true, false, false, false]);
        assert_eq!(kept(&boxes.min_size(6.0)), [true, false, false, false]);
        assert_eq!(kept(&Boxes::following("image").min_size(1e-6)), [true, true, false, true]);
        for wrong in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(Boxes::following("image").min_size(wrong).validate().is_err());
        }
    }

    #[test]
    fn what_is_no_box_is_refused() {
        let boxes = Boxes::following("image");
        let (stored, drawn) = ([5.0, 5.0, 4.0, 6.0], drawn());
        let error = boxes.visible(&stored, &drawn).next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadRow);
        assert!(Boxes::following("image").min_visible(1.5).validate().is_err());
        assert!(Boxes::following("image").along(["labels"]).validate().is_err());
    }
}
