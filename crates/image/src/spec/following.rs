//! Options of images that follow another image of the same row: they show the same part, mirrored and rotated
//! in the same way.
//!
//! The part is a share of each image's width and height, so the two images may differ in size.

use forebay_base::{Error, Result};

use super::{Framing, Image};

impl Image {
    /// Shows the image like the image in another column of the same row: with the same crop, flips and
    /// rotation. By default, they are drawn for each column independently.
    ///
    /// The crop is a share of the image's width and height, so it fits a depth map of half the size as well.
    /// This image has its own size, colours, number type and layout. If both images have a random change of
    /// pixels, such as a [`color_jitter`](Image::color_jitter), its random numbers are the same. The crop,
    /// flips and rotation may be left out here, but must not differ.
    ///
    /// ```
    /// # mod forebay { pub use forebay_image::{self as image, *}; }
    /// use forebay::Image;
    ///
    /// // For `decode("image", image)` and `decode("depth", depth)` of a loader.
    /// let image = Image::random_resized_crop(224).flip();
    /// let depth = Image::resize(112, 112).grayscale().following("image");
    /// assert_eq!(depth.follows(), Some("image"));
    /// ```
    #[must_use]
    pub fn following(self, image: impl Into<String>) -> Image {
        Image { of: Some(image.into()), ..self }
    }

    /// The name of the column whose image this image follows; `None` if it follows no other.
    pub fn follows(&self) -> Option<&str> {
        self.of.as_deref()
    }

    /// This spec with the crop, flips and rotation of the image that it follows.
    ///
    /// # Errors
    /// Fails if this spec has another crop, other flips or another rotation.
    pub fn shown_as(&self, other: &Image) -> Result<Image> {
        let is_moved = matches!(other.framing, Framing::RandomCrop(_) | Framing::ScaleJitter);
        let framing = match &self.framing {
            Framing::Resize => !is_moved,
            Framing::Fit => other.framing == Framing::Fit,
            Framing::RandomResizedCrop => {
                other.framing == Framing::RandomResizedCrop
                    && self.scale_range() == other.scale_range()
                    && self.ratio_range() == other.ratio_range()
            }
            Framing::CenterCrop => {
                other.framing == Framing::CenterCrop
                    && (self.size, self.shorter_side()) == (other.size, other.shorter_side())
            }
            Framing::RandomIouCrop(_) => {
                self.framing == other.framing
                    && (self.scale_range(), self.ratio_range()) == (other.scale_range(), other.ratio_range())
            }
            Framing::RandomCrop(_) | Framing::RandomShortestSize(_) | Framing::ScaleJitter => {
                self.framing == other.framing
                    && (self.size, self.scale_range()) == (other.size, other.scale_range())
            }
        };
        let is_own = |own: f64, of: f64| own > 0.0 && own != of;
        let refused = |what: &str| {
            Err(Error::invalid(format!("follows another image, and has {what} of its own"))
                .hint("leave it out: an image that follows is cropped, mirrored and rotated as the other one, and `resize` says in which size"))
        };
        if !framing {
            return refused("a crop or a canvas");
        }
        if is_own(self.flip, other.flip) || is_own(self.vertical_flip, other.vertical_flip) {
            return refused("a flip");
        }
        if self.has_other_angles(other) {
            return refused("a rotation");
        }
        if self.moves_pixels() {
            return refused("an automatic augmentation");
        }
        let mut shown = self.clone().rotated_as(other);
        (shown.flip, shown.vertical_flip) = (other.flip, other.vertical_flip);
        if matches!(other.framing, Framing::RandomResizedCrop | Framing::RandomIouCrop(_)) {
            (shown.framing, shown.scale, shown.ratio) = (other.framing.clone(), other.scale, other.ratio);
        }
        Ok(shown)
    }

    /// This spec with those options of `other` that say how a cell is read: raw pixels, the EXIF orientation
    /// and the limit on pixels.
    pub fn seen_as(&self, other: &Image) -> Image {
        let Image { exif_orientation, max_pixels, raw, .. } = *other;
        Image { exif_orientation, max_pixels, raw, ..self.clone() }
    }

    /// Refuses this spec if it reads a cell differently than `other`, because both images are made from one
    /// decoded cell.
    ///
    /// # Errors
    /// Fails if the specs differ in `grayscale`, the bit depth, the EXIF orientation, raw pixels or the limit
    /// on pixels.
    pub fn check_read_as(&self, other: &Image) -> Result<()> {
        let differs = [
            ("grayscale", self.grayscale != other.grayscale),
            ("bit_depth", self.depth() != other.depth()),
            ("exif_orientation", self.exif_orientation != other.exif_orientation),
            ("raw", self.raw != other.raw),
            ("max_pixels", self.max_pixels != other.max_pixels),
        ];
        match differs.into_iter().find(|(_, differs)| *differs) {
            Some((what, _)) => {
                Err(Error::invalid(format!("differs in {what} from another view of the image"))
                    .hint("all views are made of the same pixels: give it to all of them, or to none"))
            }
            None => Ok(()),
        }
    }

    /// Refuses an image that cannot be decoded by itself, because it needs another column of its row or
    /// delivers one more column.
    ///
    /// # Errors
    /// Fails if the image is cropped around boxes, follows another image or delivers its geometry.
    pub fn check_alone(&self) -> Result<()> {
        let needed = [
            (self.crops_around().is_some(), "random_iou_crop"),
            (self.of.is_some(), "of"),
            (self.emit_geometry, "emit_geometry"),
        ];
        match needed.into_iter().find(|(is_needed, _)| *is_needed) {
            Some((_, what)) => Err(Error::invalid(format!("{what} for an image that is decoded by itself"))
                .hint("boxes, another column and geometry need a loader")),
            None => Ok(()),
        }
    }

    /// Whether this is a centre crop. Its box depends on the size of the image, so
    /// [`shown_as`](Self::shown_as) does not copy it to the spec of an image that follows this one.
    pub fn crops_by_size(&self) -> bool {
        self.framing == Framing::CenterCrop
    }
}
