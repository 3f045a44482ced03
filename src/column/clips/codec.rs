//! Decodes the images of a clip, one after the other, into one slot, or writes the sizes that they have on
//! their canvases.

use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_arrow::names::TypeName;
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_image::{Drawn, Form, Image, RowKey, Workspace, decode_within, needs_stable};

use super::chosen::Chosen;
use super::slots::{COUNT_BYTES, pack, spread, write_count};
use super::spec::Clip;
use crate::column::cell::holds_bytes;
use crate::column::codec::CELLS_PER_TASK;
use crate::column::image::{check_stored, kept_forms, pixels_field, pixels_of_shape};
use crate::column::ragged::{SIZE_BYTES, write_size};
use crate::column::tensor::tensor_field;
use crate::column::{
    Cell, Codec, Column, DecodeCells, KeptForm, Noun, NullOptions, NullSlot, PackedValues, RowCells, ViewTag,
};
use crate::samples::Frames;

/// Decodes the chosen images of each row or window, and delivers them as one clip.
#[derive(Debug)]
pub(crate) struct ClipCodec {
    image: Image,
    chosen: Chosen,
    /// The number of images of each clip; `None` if clips differ.
    frames: Option<usize>,
    /// The most images that a clip may have.
    most: usize,
    /// Whether the layout is NCTHW: a channel has all its images before the next channel begins.
    has_channels_first: bool,
    /// Whether all images of a clip get the same random crop, flip and change of colours.
    are_together: bool,
    /// Whether a clip has the images of the rows of a window, and not those of a list in one row.
    takes_window: bool,
    /// The number that fills the slot of a null; `None` if a null is a bad row.
    null: Option<NullSlot>,
    /// Whether another column follows the crop of the images.
    is_followed: bool,
    /// The column of the images, if the codec delivers their sizes and not their pixels.
    sizes_of: Option<ClipColumn>,
}

/// The column of a clip's images.
#[derive(Debug)]
struct ClipColumn {
    index: usize,
    name: String,
}

/// The numbers of a size: a height and a width.
const SIDES: usize = 2;

impl ClipCodec {
    /// Creates the codec for a stored column. If samples are windows of rows, `window` has the number of this
    /// column's rows in a window, and says whether these rows share their random draws.
    ///
    /// # Errors
    /// The clip is invalid, or cannot be made from this column.
    pub(crate) fn new(
        clip: &Clip,
        stored: &Field,
        window: Option<(usize, Frames)>,
        nulls: NullOptions<'_>,
    ) -> Result<Self> {
        clip.validate()?;
        let (image, chosen) = (clip.image(), clip.chosen());
        let (takes_window, length) = match (stored.data_type(), window) {
            (DataType::List(_) | DataType::LargeList(_), _) => (false, None),
            (DataType::FixedSizeList(_, length), _) => (false, usize::try_from(*length).ok()),
            (_, Some((rows, _))) => (true, Some(rows)),
            (stored, None) if holds_bytes(stored) => {
                return Err(Error::invalid("holds one image in each row, of which no clip is made")
                    .hint("pass windows of rows as `samples`, or decode it as an Image"));
            }
            _ => (false, None),
        };
        let frames = chosen.frames.or(length.map(|length| chosen.count(length)));
        let Some(most) = frames.or(clip.most()) else {
            return Err(Error::invalid("holds lists of images of different lengths").hint(
                "give a clip the number of its images with `frames`, or its most images with `at_most`",
            ));
        };
        let null = NullSlot::of_pixels(nulls, image.pixel_type())?;
        let has_channels_first = clip.has_channels_first();
        let alone = takes_window && window.is_some_and(|(_, frames)| !frames.are_together());
        let are_together = clip.are_drawn_together() && !alone;
        if has_channels_first && frames.is_none() {
            return Err(Error::invalid("NCTHW for clips of different lengths")
                .hint("give the number of images with `frames`, or leave `layout` out"));
        }
        Ok(ClipCodec {
            image,
            chosen,
            frames,
            most,
            has_channels_first,
            are_together,
            takes_window,
            null,
            is_followed: false,
            sizes_of: None,
        })
    }

    /// Returns the codec for images whose crop other columns follow.
    pub(crate) fn followed(self) -> Self {
        ClipCodec { is_followed: true, ..self }
    }

    /// The column `<name>.size`, with the size that each image of the stored column `name` has on its canvas.
    /// `index` is the index of that column.
    ///
    /// # Errors
    /// A clip has too many images.
    pub(crate) fn sizes(self, name: &str, index: usize) -> Result<Column> {
        let delivered = format!("{name}.size");
        let field = match self.frames {
            Some(frames) => tensor_field(&delivered, &[frames, SIDES], DataType::Int32)?,
            None => {
                let size = tensor_field("item", &[SIDES], DataType::Int32)?;
                Field::new(delivered, DataType::LargeList(Arc::new(size)), false)
            }
        };
        let sizes = ClipCodec {
            has_channels_first: false,
            null: self.null.map(NullSlot::empty),
            sizes_of: Some(ClipColumn { index, name: name.to_owned() }),
            ..self
        };
        Ok(Column { codec: Codec::Cells(Arc::new(sizes)), field: Arc::new(field) })
    }

    /// The number of bytes that an image takes in a slot.
    fn bytes_of_image(&self) -> usize {
        if self.sizes_of.is_some() { SIZE_BYTES } else { self.image.bytes_per_image() }
    }

    /// The index of the column that holds the images, for a codec of the column `delivered`.
    fn images_of(&self, delivered: usize) -> usize {
        self.sizes_of.as_ref().map_or(delivered, |images| images.index)
    }

    /// Returns the error with the name of the column that holds the images. The codec of their pixels reports
    /// the same error, so the row counts as bad once.
    fn about_images(&self, error: Error) -> Error {
        match &self.sizes_of {
            Some(images) => error.at(Place::default().column(images.name.as_str())),
            None => error,
        }
    }

    /// Decodes the images of one clip, which are chosen among `available` images. `decode` gets the index of
    /// an image and the memory for its pixels.
    fn decode_frames(
        &self,
        available: usize,
        key: RowKey,
        slot: &mut [u8],
        decode: &mut dyn FnMut(usize, &mut [u8]) -> Result<()>,
    ) -> Result<(), (usize, Error)> {
        if available == 0 && self.frames.is_some() {
            return Err((0, Error::new(ErrorKind::BadRow, "an empty list where images are needed")));
        }
        let each = self.bytes_of_image();
        let chosen = self.chosen.indices(available, key);
        if chosen.len() > self.most {
            let cause = format!("{} images, more than the {} of `at_most`", chosen.len(), self.most);
            return Err((0, Error::new(ErrorKind::BadRow, cause).hint("raise `at_most`, or give `frames`")));
        }
        let mut image = vec![0; if self.has_channels_first { each } else { 0 }];
        let mut last = None;
        for (at, number) in chosen.iter().copied().enumerate() {
            let again = last == Some(number);
            last = Some(number);
            if self.has_channels_first {
                if !again {
                    decode(number, &mut image).map_err(|error| (number, error))?;
                }
                spread(&image, at, chosen.len(), self.image.channels(), slot);
            } else if again {
                slot.copy_within((at - 1) * each..at * each, at * each);
            } else {
                decode(number, &mut slot[at * each..(at + 1) * each]).map_err(|error| (number, error))?;
            }
        }
        if self.frames.is_none() {
            write_count(slot, chosen.len());
        }
        Ok(())
    }

    fn decode_image(
        &self,
        cell: Cell<'_>,
        key: RowKey,
        workspace: &Workspace,
        slot: &mut [u8],
    ) -> Result<()> {
        let cell = cell.stable_if(|bytes| needs_stable(&self.image, bytes));
        if self.sizes_of.is_some() {
            write_size(slot, Drawn::probe(&self.image, cell, key)?.target());
            return Ok(());
        }
        decode_within(workspace, &self.image, cell, key, slot)
    }

    /// Fills the memory for a null image with the value for nulls. Returns `None` if there is no such value.
    fn fill_null(&self, slot: &mut [u8]) -> Option<()> {
        self.null.as_ref().map(|null| null.write(slot))
    }
}

impl DecodeCells for ClipCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        let name = stored.name();
        let image = match stored.data_type() {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)
                if holds_bytes(item.data_type()) =>
            {
                item.as_ref()
            }
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                return Err(Error::invalid(format!(
                    "holds {}, not lists of images",
                    TypeName(stored.data_type())
                ))
                .hint("the images of a list are binary values, or struct<bytes, path>"));
            }
            _ => stored,
        };
        check_stored(image, &self.image)?;
        Ok(Arc::new(match self.frames {
            Some(frames) if self.has_channels_first => {
                let [channels, height, width] = self.image.shape();
                pixels_of_shape(name, &self.image, &[channels, frames, height, width])?
            }
            Some(frames) => {
                let shape: Vec<usize> = std::iter::once(frames).chain(self.image.shape()).collect();
                pixels_of_shape(name, &self.image, &shape)?
            }
            None => {
                let image = pixels_field("item", &self.image, None)?;
                Field::new(name, DataType::LargeList(Arc::new(image)), false)
            }
        }))
    }

    fn slot(&self) -> usize {
        let count = if self.frames.is_none() { COUNT_BYTES } else { 0 };
        self.most.saturating_mul(self.bytes_of_image()).saturating_add(count)
    }

    fn image(&self) -> Option<usize> {
        self.sizes_of.as_ref().map(|images| images.index)
    }

    fn takes_window(&self) -> bool {
        self.takes_window
    }

    fn decode(&self, _: Cell<'_>, _: RowCells<'_>, _: RowKey, _: &Workspace, _: &mut [u8]) -> Result<()> {
        Err(Error::new(ErrorKind::Internal, "a single cell of a clip"))
    }

    fn decode_row(
        &self,
        column: usize,
        row: RowCells<'_>,
        key: RowKey,
        workspace: &Workspace,
        slots: &mut [&mut [u8]],
    ) -> Result<Result<()>> {
        let [slot] = slots else { return Err(Error::new(ErrorKind::Internal, "a clip with several slots")) };
        let Some(list) = row.list(self.images_of(column))? else {
            if self.null.is_none() {
                return Ok(Err(self.about_images(self.noun().null())));
            }
            slot.fill(0);
            if self.frames.is_some() {
                self.fill_null(slot);
            }
            return Ok(Ok(()));
        };
        let frame = ViewTag::for_view("frame");
        let mut copy = Vec::new();
        let decoded = self.decode_frames(list.len(), key, slot, &mut |number, slot| {
            let key = if self.are_together { key } else { frame.key(key, number as u32) };
            match list.get(number, &mut copy)? {
                Some(cell) => self.decode_image(cell, key, workspace, slot),
                None if list.path(number).is_some() => Err(list.null(number, IMAGE)),
                None => self.fill_null(slot).ok_or_else(|| list.null(number, IMAGE)),
            }
        });
        Ok(decoded.map_err(|(number, error)| {
            self.about_images(match list.len() {
                0 | 1 => error,
                _ => error.about(&format!("image {number} of the list")),
            })
        }))
    }

    fn decode_window(
        &self,
        column: usize,
        rows: &[(RowCells<'_>, RowKey)],
        key: RowKey,
        workspace: &Workspace,
        slot: &mut [u8],
    ) -> Result<(), (usize, Error)> {
        let (column, mut copy) = (self.images_of(column), Vec::new());
        let decoded = self.decode_frames(rows.len(), key, slot, &mut |number, slot| {
            let (row, own) = rows[number];
            let key = if self.are_together { key } else { own };
            match row.get(column, &mut copy)? {
                Some(cell) => self.decode_image(cell, key, workspace, slot),
                None if row.path(column).is_some() => Err(row.null(column, IMAGE)),
                None => self.fill_null(slot).ok_or_else(|| row.null(column, IMAGE)),
            }
        });
        decoded.map_err(|(number, error)| (number, self.about_images(error)))
    }

    fn decode_null(&self, _: RowCells<'_>, _: &mut [u8]) -> Result<bool> {
        Ok(false)
    }

    fn pack(&self, slots: &mut [u8]) -> Result<Option<PackedValues>> {
        if self.frames.is_some() {
            return Ok(None);
        }
        pack(slots, self.slot(), self.bytes_of_image()).map(|counts| Some(PackedValues::Clips(counts)))
    }

    fn cells_per_task(&self) -> usize {
        (CELLS_PER_TASK / self.most.max(1)).max(1)
    }

    fn noun(&self) -> Noun {
        Noun { one: "a list of images", several: "lists of images" }
    }

    fn uses_workspace(&self) -> bool {
        true
    }

    /// The rows of a window have one image each, so these images can be kept in the same forms as without a
    /// clip. Lists of images are kept as they are stored.
    fn forms(&self, stored: &DataType) -> Vec<Arc<dyn KeptForm>> {
        if !self.takes_window || self.sizes_of.is_some() {
            return Vec::new();
        }
        let is_lost = self.is_followed && !self.image.kept_with_size();
        kept_forms(&self.image, stored, |form| !is_lost || form == Form::Coefficients)
    }
}

const IMAGE: Noun = Noun { one: "an image", several: "images" };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::ImageCodec;

    #[test]
    fn rows_of_a_window_are_kept_like_images_and_lists_as_they_are_stored() {
        let stored = Field::new("x", DataType::BinaryView, true);
        let list = Field::new("x", DataType::List(Arc::new(stored.clone())), true);
        let tiers = |forms: Vec<Arc<dyn KeptForm>>| -> Vec<_> {
            forms.into_iter().map(|form| (form.tier(), form.key())).collect()
        };
        for image in [Image::random_resized_crop(8), Image::resize(8, 8), Image::fit(8)] {
            let clip = Clip::new(image.clone()).frames(2);
            let of = |stored: &Field, window| {
                ClipCodec::new(&clip, stored, window, NullOptions::default()).unwrap()
            };
            let window = || of(&stored, Some((4, Frames::Together)));
            let alone = || ImageCodec::new(image.clone());
            let binary = stored.data_type();
            assert!(!window().forms(binary).is_empty());
            assert_eq!(tiers(window().forms(binary)), tiers(alone().forms(binary)));
            assert_eq!(tiers(window().followed().forms(binary)), tiers(alone().followed().forms(binary)));
            assert!(of(&list, None).forms(list.data_type()).is_empty());
            let sizes = window().sizes("x", 0);
            let Ok(Column { codec: Codec::Cells(sizes), .. }) = sizes else { unreachable!() };
            assert!(sizes.forms(binary).is_empty(), "what is measured is the stored image");
        }
    }

    #[test]
    fn a_clip_that_cannot_work_has_no_codec() {
        let stored = Field::new("x", DataType::BinaryView, true);
        let clip = Clip::new(Image::resize(8, 8)).frames(2).at_most(3);
        let window = Some((4, Frames::Together));
        let error = ClipCodec::new(&clip, &stored, window, NullOptions::default()).unwrap_err();
        assert_eq!(error.cause(), "a clip with frames and at_most");
    }

    #[test]
    fn images_are_drawn_together_unless_the_window_or_the_clip_draws_them_alone() {
        let stored = Field::new("x", DataType::BinaryView, true);
        let list = Field::new("x", DataType::List(Arc::new(stored.clone())), true);
        for (stored, window, draws, are_together) in [
            (&stored, Some(Frames::Together), Frames::Together, true),
            (&stored, Some(Frames::Alone), Frames::Together, false),
            (&stored, Some(Frames::Together), Frames::Alone, false),
            (&list, None, Frames::Together, true),
            (&list, Some(Frames::Alone), Frames::Together, true),
            (&list, None, Frames::Alone, false),
        ] {
            let clip = Clip::new(Image::random_resized_crop(8)).frames(2).draws(draws);
            let window = window.map(|frames| (4, frames));
            let codec = ClipCodec::new(&clip, stored, window, NullOptions::default()).unwrap();
            assert_eq!(codec.are_together, are_together, "{window:?} {draws:?}");
        }
    }
}
