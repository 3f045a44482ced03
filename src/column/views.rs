//! Several views of each image of a column, in columns of their own. The image is decoded once for all of
//! them.

use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_base::{Error, Place, Result};
use forebay_image::{Form, Image, RowKey, View, Workspace, decode_views, needs_stable};
use serde::{Deserialize, Serialize};

use super::codec::CELLS_PER_TASK;
use super::image::{check_stored, kept_forms, pixels_field};
use super::{
    Cell, Codec, Column, ColumnOption, DecodeCells, KeptForm, Noun, NullOptions, NullSlot, RowCells, ViewTag,
};
use crate::batch::Fill;

/// Several views of each image of a column. Each view has its own name and its own random draws, and is
/// delivered in the column `<column>.<name>`. An image is read and decoded once for all its views.
///
/// Pass it to a loader with [`LoaderBuilder::views`](crate::LoaderBuilder::views). The random draws of a view
/// depend on the seed, the epoch, the row, the stored name of the column, the name of the view and, if the
/// view has several images, on the number of the image, but not on other views. They differ from those of a
/// column with [`decode`](crate::LoaderBuilder::decode).
///
/// The decoded part of an image covers all its views, at the largest scale that any of them needs. All views
/// are made from the same pixels, so they must have the same options for grey, 16 bits, EXIF's orientation,
/// raw pixels and the size limit.
///
/// ```
/// use forebay::Image;
/// use forebay::column::Views;
///
/// let crop = |size| Image::random_resized_crop(size).flip();
/// let simclr = Views::new().several("views", 2, crop(224).color_jitter(0.8, 0.8, 0.8, 0.2));
/// let multi_crop = Views::new()
///     .several("global", 2, crop(224).scale((0.4, 1.0)))
///     .several("local", 8, crop(96).scale((0.05, 0.4)));
/// let fixmatch = Views::new().one("weak", crop(32)).one("strong", crop(32).random_erasing(1.0));
/// # for views in [simclr, multi_crop, fixmatch] { views.validate()?; }
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Views {
    each: Vec<NamedView>,
}

/// A view of images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamedView {
    pub(crate) name: String,
    pub(crate) image: Image,
    /// The number of images of the view in each row, which becomes an extra dimension of the column. With
    /// `None` there is one image and no extra dimension.
    #[serde(default)]
    pub(crate) count: Option<u32>,
}

impl Views {
    /// Makes an empty list of views. Add views with [`one`](Self::one) and [`several`](Self::several).
    pub fn new() -> Views {
        Views::default()
    }

    /// Adds a view with one image for each row, of the shape of `image`.
    #[must_use]
    pub fn one(self, name: impl Into<String>, image: Image) -> Views {
        self.with(NamedView { name: name.into(), image, count: None })
    }

    /// Adds a view with `count` images for each row, each with its own random draws. A row has the shape of
    /// `image`, with `count` as one more dimension in front.
    #[must_use]
    pub fn several(self, name: impl Into<String>, count: u32, image: Image) -> Views {
        self.with(NamedView { name: name.into(), image, count: Some(count) })
    }

    fn with(mut self, view: NamedView) -> Views {
        self.each.push(view);
        self
    }

    /// Checks the views: there is at least one, names are unique, and the images can be made from one decoded
    /// image.
    ///
    /// # Errors
    /// Fails with [`forebay_base::ErrorKind::Invalid`]. Most errors have a hint that says what to change.
    pub fn validate(&self) -> Result<()> {
        self.check(|view| view.name.clone())
    }

    /// Checks the views as [`validate`](Self::validate) does; `name` gives the name by which an error refers
    /// to a view.
    fn check(&self, name: impl Fn(&NamedView) -> String) -> Result<()> {
        let Some(first) = self.each.first() else {
            return Err(Error::invalid("no views").hint("give at least one view, with a name and an image"));
        };
        for (at, view) in self.each.iter().enumerate() {
            if view.name.is_empty() {
                return Err(Error::invalid("a view with an empty name"));
            }
            if self.each[..at].iter().any(|other| other.name == view.name) {
                return Err(Error::invalid(format!("two views have the name {:?}", view.name))
                    .hint("give each a name of its own, or one view a count"));
            }
            let at = |error: Error| error.at(Place::default().column(name(view)));
            view.validate(&first.image).map_err(at)?;
        }
        Ok(())
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, NamedView> {
        self.each.iter()
    }
}

impl NamedView {
    /// The name of the column in which the view of the stored `column` is delivered.
    pub(crate) fn column(&self, column: &str) -> String {
        format!("{column}.{}", self.name)
    }

    /// The tag that gives the view random draws of its own.
    pub(crate) fn tag(&self) -> ViewTag {
        ViewTag::for_view(&self.name)
    }

    /// The field of the view's column.
    ///
    /// # Errors
    /// A row is too large.
    pub(crate) fn field(&self, column: &str) -> Result<FieldRef> {
        pixels_field(&self.column(column), &self.image, self.count).map(Arc::new)
    }

    /// The number of bytes that all images of the view in one row take.
    fn slot(&self) -> usize {
        self.image.bytes_per_image() * self.count.unwrap_or(1) as usize
    }

    fn validate(&self, first: &Image) -> Result<()> {
        if self.count == Some(0) {
            return Err(
                Error::invalid("a count of 0").hint("give a count of 1 or more, or leave the view out")
            );
        }
        self.image.validate()?;
        self.image.check_read_as(first)?;
        if self.image.emits_size() || self.image.is_ragged() {
            return Err(Error::invalid("keeps the shape of images, on a canvas or without one")
                .hint("a view has one size: a crop, or the whole image stretched"));
        }
        if self.image.crops_around().is_some() {
            return Err(Error::invalid("is cropped around boxes")
                .hint("a view has no boxes: give another crop, or decode the column as one image"));
        }
        if self.image.follows().is_some() {
            return Err(
                Error::invalid("follows another image").hint("leave `of` out: a view draws for itself")
            );
        }
        Ok(())
    }
}

/// This option does not make the delivered columns itself. The loader makes them, because it knows which
/// other columns, such as boxes, change together with a view.
impl ColumnOption for Views {
    fn keyword(_: &'static str) -> &'static str {
        "decode"
    }

    fn takes_whole() -> bool {
        true
    }

    fn takes_fill(&self, _: &Field, fill: &Fill) -> bool {
        // The type of the number is checked when the codec is made.
        fill.number().is_some()
    }
}

/// Decodes each image once for all its views. The column of the first view has this codec; the columns of the
/// other views have a [`Codec::View`].
#[derive(Debug)]
pub(crate) struct ViewsCodec {
    views: Vec<NamedView>,
    /// Whether another column, such as boxes, changes together with a view.
    is_followed: bool,
    /// The number that fills the slot of a null in each view; empty if a null is a bad row.
    nulls: Vec<NullSlot>,
}

impl ViewsCodec {
    /// # Errors
    /// Fails if the views are invalid, or if the fill is not a number that a pixel can have.
    pub(crate) fn new(
        views: &Views,
        column: &str,
        nulls: NullOptions<'_>,
        is_followed: bool,
    ) -> Result<Self> {
        views.check(|view| view.column(column))?;
        let views = views.each.clone();
        let nulls = views.iter().map(|view| NullSlot::of_pixels(nulls, view.image.pixel_type()));
        let nulls = nulls.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        Ok(ViewsCodec { views, is_followed, nulls })
    }
}

impl DecodeCells for ViewsCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        for view in &self.views {
            check_stored(stored, &view.image)?;
        }
        self.views[0].field(stored.name())
    }

    fn slot(&self) -> usize {
        self.views[0].slot()
    }

    fn decode(
        &self,
        cell: Cell<'_>,
        row: RowCells<'_>,
        key: RowKey,
        workspace: &Workspace,
        slot: &mut [u8],
    ) -> Result<()> {
        self.decode_views(cell, row, key, workspace, &mut [slot])
    }

    fn decode_null(&self, row: RowCells<'_>, slot: &mut [u8]) -> Result<bool> {
        self.decode_null_views(row, &mut [slot])
    }

    fn decode_views(
        &self,
        cell: Cell<'_>,
        _: RowCells<'_>,
        key: RowKey,
        workspace: &Workspace,
        slots: &mut [&mut [u8]],
    ) -> Result<()> {
        let cell = cell.stable_if(|bytes| needs_stable(&self.views[0].image, bytes));
        let each = self.views.iter().zip(slots).flat_map(|(view, slot)| {
            let (image, tag) = (&view.image, view.tag());
            let slots = slot.chunks_exact_mut(image.bytes_per_image());
            (0..).zip(slots).map(move |(number, slot)| View::new(image, tag.key(key, number), slot))
        });
        decode_views(workspace, cell, &mut each.collect::<Vec<_>>())
    }

    fn decode_null_views(&self, _: RowCells<'_>, slots: &mut [&mut [u8]]) -> Result<bool> {
        self.nulls.iter().zip(slots).for_each(|(null, slot)| null.write(slot));
        Ok(!self.nulls.is_empty())
    }

    /// One cell makes several images, so a task gets fewer cells than a task that decodes single images.
    fn cells_per_task(&self) -> usize {
        let images: u64 = self.views.iter().map(|view| u64::from(view.count.unwrap_or(1))).sum();
        (CELLS_PER_TASK / images as usize).max(1)
    }

    fn noun(&self) -> Noun {
        Noun { one: "an image", several: "images" }
    }

    fn uses_workspace(&self) -> bool {
        true
    }

    /// The forms in which the row cache may keep the stored images, limited to those from which every view
    /// can be made.
    fn forms(&self, stored: &DataType) -> Vec<Arc<dyn KeptForm>> {
        let first = &self.views[0].image;
        let is_lost = self.is_followed && !first.kept_with_size();
        kept_forms(first, stored, |form| {
            let alike = |view: &NamedView| view.image.kept_as(form) == first.kept_as(form);
            self.views.iter().all(alike) && (!is_lost || form == Form::Coefficients)
        })
    }
}

/// The column of a view other than the first. Its slots are filled together with those of the first view,
/// whose column has the index `first`.
pub(crate) fn other_view(view: &NamedView, column: &str, first: usize) -> Result<Column> {
    Ok(Column { codec: Codec::View { first, bytes: view.slot() }, field: view.field(column)? })
}
