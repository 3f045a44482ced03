//! Columns that follow images (boxes, points and masks that are cropped and flipped alike): their codecs, and
//! the added columns that tell how each image was cropped.

use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field, Schema};
use forebay_base::{Error, ErrorKind, Result};
use forebay_image::Image;
use forebay_store::catalog::Projection;
use forebay_store::source::{is_pattern, matches_name};

use super::LoaderBuilder;
use super::null_masks::Masked;
use super::places::of_column;
use crate::column::{
    AlongCodec, Around, Boxes, BoxesCodec, Clip, ClipCodec, Codec, Column, Follow, FollowImage, Followed,
    GeometryCodec, ImageCodec, KeptBoxes, KeypointsCodec, MaskCodec, MasksCodec, NullOptions, PaddedCodec,
    SizeCodec,
};
use crate::shard::column_tag;

impl LoaderBuilder {
    /// The columns that are decoded to pixels, with their options.
    pub(super) fn images(&self) -> impl Iterator<Item = (&str, &Image)> {
        self.spec.with_option(|column| column.decode.as_ref())
    }

    /// The columns that are delivered as clips, with their options.
    pub(super) fn clips(&self) -> impl Iterator<Item = (&str, &Clip)> {
        self.spec.with_option(|column| column.clips.as_ref())
    }

    /// The codec of a column of images, with the image or the boxes that it follows.
    pub(super) fn image_codec(&self, read: &Schema, name: &str, masked: &Masked<'_>) -> Result<ImageCodec> {
        let Followed { image, of, around, .. } = self.followed(read, name)?;
        let is_followed = image.emits_geometry() || self.has_followers(name);
        let codec =
            ImageCodec::new(image).shown_as(of).around(around).with_nulls(self.null_options(name, masked));
        let codec = codec.map_err(|error| error.at(of_column(name)))?;
        Ok(if is_followed { codec.followed() } else { codec })
    }

    /// The codec of a column that is delivered as clips.
    pub(super) fn clip_codec(
        &self,
        clip: &Clip,
        field: &Field,
        name: &str,
        masked: &Masked<'_>,
    ) -> Result<ClipCodec> {
        let codec = ClipCodec::new(clip, field, self.rows_of_window(name), self.null_options(name, masked))?;
        Ok(if self.has_followers(name) { codec.followed() } else { codec })
    }

    /// Makes the columns that follow an image, and the columns that have an item for each box of another
    /// column.
    pub(super) fn following<'a>(
        &'a self,
        read: &'a Schema,
        masked: &Masked<'_>,
    ) -> Result<Vec<(&'a str, Column)>> {
        let mut columns = Vec::new();
        for (name, follow) in self.followers() {
            let field = self.read_column(read, name, "decode")?;
            let followed = self.followed(read, follow.image()).and_then(check_still);
            let followed = followed.map_err(|error| error.at(of_column(name)))?;
            if let Follow::Boxes(boxes) = follow {
                columns.extend(self.along(read, name, boxes)?);
            }
            let nulls = self.null_options(name, masked);
            let column = match follow {
                Follow::Mask(mask) => {
                    MaskCodec::new(mask, followed, nulls).and_then(|codec| Column::decoded(codec, field))
                }
                _ => self
                    .follower(read, name, field, follow, followed, nulls)
                    .and_then(|codec| self.in_rows(field, codec)),
            };
            columns.push((name, column.map_err(|error| error.at(of_column(name)))?));
        }
        Ok(columns)
    }

    /// The codec of a column of lists that follow an image, such as boxes or points.
    fn follower(
        &self,
        read: &Schema,
        name: &str,
        field: &Field,
        follow: &Follow,
        followed: Followed,
        nulls: NullOptions<'_>,
    ) -> Result<Arc<dyn FollowImage>> {
        let kept = self.kept_boxes(read, name)?;
        // A column of boxes may drop boxes itself. It would then no longer have one item for each box of
        // another column.
        if kept.is_some() && matches!(follow, Follow::Boxes(_)) {
            return Err(self.twice(name));
        }
        let codec: Arc<dyn FollowImage> = match follow {
            Follow::Boxes(boxes) => Arc::new(BoxesCodec::new(boxes.clone(), followed, nulls)),
            Follow::Keypoints(points) => Arc::new(KeypointsCodec::new(points, field, followed, nulls)?),
            Follow::Masks(_) => return Ok(Arc::new(MasksCodec::new(followed, kept, nulls))),
            Follow::Mask(_) => return Err(Error::new(ErrorKind::Internal, "a mask is decoded by cells")),
        };
        Ok(match kept {
            Some(kept) => Arc::new(AlongCodec::new(kept, Some(codec))),
            None => codec,
        })
    }

    /// Makes the column of a codec that follows an image. If the column is padded, its rows get one length.
    fn in_rows(&self, field: &Field, codec: Arc<dyn FollowImage>) -> Result<Column> {
        let pad = self.spec.by_column.get(field.name()).and_then(|column| column.pad.as_ref());
        let codec = match pad {
            Some(pad) => Arc::new(PaddedCodec::new(codec, pad, field)?),
            None => codec,
        };
        Column::with_codec(Codec::Follow(codec), field)
    }

    /// The boxes of another column to which the items of this column belong. If a box is dropped, its items
    /// are dropped too. `None` for other columns.
    fn kept_boxes(&self, read: &Schema, name: &str) -> Result<Option<KeptBoxes>> {
        let mut taking = self.followers().filter_map(|(column, follow)| match follow {
            Follow::Boxes(boxes) if column != name && boxes.takes_along(name) => Some((column, boxes)),
            _ => None,
        });
        let Some((column, boxes)) = taking.next() else { return Ok(None) };
        if taking.next().is_some() {
            return Err(self.twice(name));
        }
        let stored = self.read_column(read, column, "decode")?;
        let followed = self.followed(read, Follow::from(boxes.clone()).image())?;
        let place = read.index_of(column).unwrap_or_default();
        Ok(Some(KeptBoxes::new(boxes.clone(), place, Arc::new(stored.clone()), followed)))
    }

    /// Whether a column has lists that follow an image, or an item for each box of another column.
    pub(super) fn is_following(&self, name: &str) -> bool {
        let is_cells = |follow: &Follow| matches!(follow, Follow::Mask(_));
        self.followers().any(|(column, follow)| column == name && !is_cells(follow)) || self.goes_along(name)
    }

    /// Whether another column follows the image with this name.
    pub(super) fn has_followers(&self, image: &str) -> bool {
        self.followers().any(|(_, follow)| follow.image() == image)
            || self.images().any(|(_, other)| other.follows() == Some(image))
    }

    /// Whether a column has an item for each box of another column.
    pub(super) fn goes_along(&self, name: &str) -> bool {
        self.followers().any(|(_, follow)| follow.takes_along(name))
    }

    /// The columns that are transformed along with an image, with the options that say so.
    pub(super) fn followers(&self) -> impl Iterator<Item = (&str, &Follow)> {
        self.spec.with_option(|column| column.follow.as_ref())
    }

    /// The options of a column that is decoded to pixels; `None` for other columns.
    fn image(&self, name: &str) -> Option<&Image> {
        self.spec.by_column.get(name)?.decode.as_ref()
    }

    /// Makes the columns that have an item for each box in `boxes_column`. The item is dropped together with
    /// the box.
    fn along<'a>(
        &'a self,
        read: &'a Schema,
        boxes_column: &str,
        boxes: &'a Boxes,
    ) -> Result<Vec<(&'a str, Column)>> {
        let mut names: Vec<&str> = Vec::new();
        for along in boxes.columns_along() {
            let is_there = read.column_with_name(along).is_some();
            if is_there || !is_pattern(along) {
                names.push(self.read_column(read, along, "along")?.name());
                continue;
            }
            let fields = read.fields().iter().map(|field| field.name().as_str());
            let matching: Vec<&str> =
                fields.filter(|name| *name != boxes_column && matches_name(along, name)).collect();
            if matching.is_empty() {
                let cause = format!("along: no column that is read matches {along:?}");
                return Err(Error::new(ErrorKind::UnknownColumn, cause).at(of_column(boxes_column)));
            }
            names.extend(matching.into_iter().filter(|name| !boxes.names(name)));
        }
        // A column that also follows the image itself is made elsewhere, with the other columns that follow
        // the image.
        let is_follower = |name: &str| self.followers().any(|(follower, _)| follower == name);
        let each = names.into_iter().filter(|name| !is_follower(name)).map(|name| {
            let column = || {
                let stored = self.read_column(read, name, "along")?;
                let kept = self.kept_boxes(read, name)?;
                let kept =
                    kept.ok_or_else(|| Error::new(ErrorKind::Internal, "no boxes to go along with"))?;
                self.in_rows(stored, Arc::new(AlongCodec::new(kept, None)))
            };
            Ok((name, column().map_err(|error: Error| error.at(of_column(name)))?))
        });
        each.collect()
    }

    /// The boxes around which an image is cropped; `None` if it is cropped independently of boxes.
    fn around(&self, read: &Schema, image: &str, spec: &Image) -> Result<Option<Around>> {
        let Some(column) = spec.crops_around() else { return Ok(None) };
        let refused = |cause: String| {
            Err(Error::invalid(cause)
                .hint(format!("name a column that `decode` delivers as boxes of {image:?}"))
                .at(of_column(image)))
        };
        match self.followers().find(|(name, _)| *name == column) {
            Some((_, follow @ Follow::Boxes(boxes))) if follow.image() == image => {
                self.read_column(read, column, "decode")?;
                Ok(Some(Around::new(boxes.clone(), read.index_of(column).unwrap_or_default())))
            }
            Some(_) => refused(format!("is cropped around column {column:?}, which does not hold its boxes")),
            None => refused(format!("is cropped around column {column:?}, which is not delivered as boxes")),
        }
    }

    /// The image that a column follows. If this image is cropped and flipped like another image, `of` is that
    /// other image.
    fn followed(&self, read: &Schema, image: &str) -> Result<Followed> {
        let alone = self.followed_alone(read, image)?;
        let mut passed = vec![image];
        let mut last = &alone.image;
        while let Some(next) = last.follows() {
            if passed.contains(&next) {
                let cause = match passed.len() {
                    1 => "follows itself".to_owned(),
                    _ => format!("follows column {next:?}, and images follow each other in a circle"),
                };
                return Err(Error::invalid(cause)
                    .hint("let one image draw for itself: leave its `of` out")
                    .at(of_column(passed.last().unwrap_or(&image))));
            }
            let followed = self.followed_alone(read, next);
            followed.map_err(|error| error.at(of_column(passed.last().unwrap_or(&image))))?;
            passed.push(next);
            let Some(image) = self.image(next) else { break };
            last = image;
        }
        if passed.len() == 1 {
            return Ok(alone);
        }
        let of = self.followed_alone(read, passed[passed.len() - 1])?;
        let of = check_still(of)?;
        let shown = alone.image.shown_as(&of.image).map_err(|error| error.at(of_column(image)))?;
        Ok(Followed { image: shown, of: Some(Box::new(of)), ..alone })
    }

    /// The image that a column follows, with `of` empty even if the image is cropped and flipped like another
    /// one.
    fn followed_alone(&self, read: &Schema, image: &str) -> Result<Followed> {
        if let Some((column, view)) = self.view(image) {
            return self.followed_view(read, column, view);
        }
        let field = self.read_column(read, image, "of")?;
        let (column, name) = (read.index_of(image).unwrap_or_default(), image.to_owned());
        if let Some(spec) = self.image_of_clip(field)? {
            return Ok(Followed { column, name, image: spec, of: None, view: None, around: None });
        }
        let Some(spec) = self.image(image) else {
            return Err(self.has_only_views(image).unwrap_or_else(|| {
                Error::invalid(format!("follows column {image:?}, which is not decoded to pixels"))
                    .hint(format!("add an Image for {image:?} to `decode`"))
            }));
        };
        let around = self.around(read, image, spec)?;
        Ok(Followed { column, name, image: spec.clone(), of: None, view: None, around })
    }

    /// The image that each row of a clip becomes; `None` for a column that is not delivered as clips. Columns
    /// can follow the images of a clip if it consists of the rows of a window: each row then has one image,
    /// and the random numbers that the row's other columns have.
    fn image_of_clip(&self, field: &Field) -> Result<Option<Image>> {
        let name = field.name();
        let Some((_, clip)) = self.clips().find(|(column, _)| column == name) else { return Ok(None) };
        let is_list = matches!(
            field.data_type(),
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)
        );
        let Some((_, frames)) = self.rows_of_window(name).filter(|_| !is_list) else {
            let cause = format!("follows column {name:?}, a clip of the images of one row");
            return Err(Error::invalid(cause).hint(
                "boxes, points, masks and other images follow clips of a window's rows: store an image in each \
                 row, and pass a Window as `samples`",
            ));
        };
        if frames.are_together() && !clip.are_drawn_together() {
            let cause = format!("follows column {name:?}, a clip whose images draw alone");
            return Err(Error::invalid(cause)
                .hint("let all columns of a row draw alone: give the window `frames=\"alone\"`"));
        }
        Ok(Some(clip.image()))
    }

    /// The tag of each column, which gives the column other random numbers than other columns. It is made
    /// from the stored name of the column, or of the image whose random numbers the column shares.
    pub(super) fn tags(&self, codecs: &[Codec], projection: &Projection) -> Vec<u64> {
        let names: Vec<String> =
            projection.selected().iter().map(|selected| self.unrenamed(selected)).collect();
        let of_column = |column: usize| {
            let mut at = column;
            while let Some(followed) = codecs[at].follows() {
                at = followed;
            }
            names.get(at).map_or(0, |name| column_tag(name))
        };
        (0..codecs.len()).map(of_column).collect()
    }

    /// Makes the columns that tell how images were cropped, and the columns with the sizes of images that are
    /// padded to one size.
    pub(super) fn geometries(&self, read: &Schema, masked: &Masked<'_>) -> Result<Vec<Column>> {
        let mut columns = Vec::new();
        let check_size = |name: &str| match read.index_of(name) {
            Ok(_) => Err(Error::invalid("the sizes of images have the name of a stored column")
                .hint("leave that column out of `columns`")
                .at(of_column(name))),
            Err(_) => Ok(()),
        };
        for (name, clip) in self.clips().filter(|(_, clip)| clip.emits_size()) {
            let field = self.read_column(read, name, "decode")?;
            let place = read.index_of(name).unwrap_or_default();
            let sizes = self.clip_codec(clip, field, name, masked)?.sizes(name, place);
            let sizes = sizes.map_err(|error| error.at(of_column(name)))?;
            check_size(sizes.field.name())?;
            columns.push(sizes);
        }
        for (image, _) in self.images().filter(|(_, image)| image.emits_size()) {
            let codec = SizeCodec::new(self.followed(read, image)?);
            check_size(&codec.name())?;
            let field = codec.field()?;
            columns.push(Column { codec: Codec::Numbers(Arc::new(codec)), field });
        }
        let images = self.images().filter(|(_, image)| image.emits_geometry());
        let images = images.map(|(image, _)| Ok((self.followed(read, image)?, None)));
        let views = self.all_views().flat_map(|(column, views)| views.iter().map(move |view| (column, view)));
        let views = views.filter(|(_, view)| view.image.emits_geometry());
        let views = views.map(|(column, view)| Ok((self.viewed_as(read, column, view)?, view.count)));
        for emitting in images.chain(views) {
            let (followed, count) = emitting?;
            let codec = GeometryCodec::new(followed, count);
            if read.index_of(&codec.name()).is_ok() {
                return Err(Error::invalid("the geometry of images has the name of a stored column")
                    .hint("leave that column out of `columns`, or do not emit the geometry")
                    .at(of_column(&codec.name())));
            }
            let field = codec.field()?;
            columns.push(Column { codec: Codec::Numbers(Arc::new(codec)), field });
        }
        Ok(columns)
    }
}

/// Refuses an image with an automatic augmentation that moves pixels in ways that other columns cannot
/// follow.
fn check_still(followed: Followed) -> Result<Followed> {
    if !followed.image.moves_pixels() {
        return Ok(followed);
    }
    Err(Error::invalid(format!("follows {:?}, which has an automatic augmentation", followed.name)).hint(
        "its operations move pixels, and boxes, points, masks and other images cannot follow: leave it out",
    ))
}
