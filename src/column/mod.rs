//! Codecs, which convert the stored cells of a column to the values of a batch.
//!
//! ```text
//! stored cells ─┬─ gather ──────────────┬────────────► batch   plain, text, encoding, lists of tensors
//!               │                       └─ follow ───► batch   boxes, points
//!               └─ decode, cell by cell ─► slots ────► batch   image, mask, tensor, decoder
//! ```
//!
//! The loader, the row cache and the statistics know a column only as a [`Codec`]. To support a new type of
//! column, add a file here that implements one of the codec traits. Threads, tasks and buffers belong to
//! `loader/collate`, which calls a codec once for each column and, if cells are decoded, once for each cell.
//!
//! [`ColumnSpec`] has all options that a user can set for a column. Each option is a field of it, and is
//! implemented in a file of its own in this folder.

mod arrays;
mod as_stored;
mod by_column;
mod cache_form;
mod cast;
mod cell;
mod clips;
mod codec;
mod decoder;
mod encoding;
mod exact;
mod extension;
mod follow;
mod form;
mod image;
mod longest;
mod masked;
mod noun;
mod nulls;
mod option;
mod pad;
mod padding;
mod plain;
mod ragged;
mod spec;
mod stack;
mod tensor;
mod tensors;
mod text;
mod text_bytes;
mod unischema;
mod vectors;
mod view_tag;
mod views;

use forebay_image::Image;

pub use crate::batch::Fill;
pub(crate) use arrays::{Arrays, ArraysCodec};
pub use as_stored::AsStored;
pub(crate) use by_column::{deserialize as read_options, serialize as write_options};
pub(crate) use cache_form::CacheForm;
pub use cast::Cast;
pub(crate) use cast::{CastCodec, cast_field};
pub(crate) use cell::{Cell, RowCells};
pub use clips::{Clip, ClipLayout, FrameSampling};
pub(crate) use clips::{ClipCodec, clips};
pub(crate) use codec::{
    BadValue, Codec, Column, DecodeCells, DrawNumbers, FollowImage, FollowedRows, Gather, GatheredRows, Held,
    PackedValues, RowSize, StackBlock, StackColumns, StackedColumn,
};
pub use decoder::Decoder;
pub(crate) use decoder::DecoderCodec;
pub(crate) use encoding::CodeValues;
pub use encoding::{Categories, CategoryCounts, Encoding, Hash, Vocabulary};
pub use extension::is_packed;
pub(crate) use extension::{EXTENSION_METADATA, EXTENSION_NAME, packed_metadata};
pub(crate) use follow::{
    AlongCodec, Around, BoxesCodec, Followed, GeometryCodec, KeptBoxes, KeypointsCodec, MaskCodec,
    MasksCodec, PaddedCodec, SizeCodec,
};
pub use follow::{BoxFormat, Boxes, Follow, Keypoints, Mask, Masks};
pub(crate) use form::{Cost, KeptForm};
pub(crate) use image::ImageCodec;
pub(crate) use longest::LongestRows;
pub(crate) use masked::{MaskedCodec, NullMaskCodec, masked_fill};
pub(crate) use noun::Noun;
pub(crate) use nulls::{NullOptions, NullSlot};
pub(crate) use option::{ColumnOption, TypedOption};
pub use pad::Pad;
pub(crate) use pad::PadMaskCodec;
pub use padding::{KeptEnd, PadSide};
pub(crate) use plain::PlainCodec;
pub(crate) use ragged::images;
pub(crate) use spec::Given;
pub use stack::Stack;
pub(crate) use stack::{STACKED_TOGETHER, StackCodec};
pub(crate) use tensor::{tensor, tensor_field};
pub(crate) use tensors::{Declared, tensor_shape};
pub use tensors::{Tensor, TensorFormat};
pub use text::TextFormat;
pub(crate) use unischema::Decoding;
pub(crate) use vectors::VectorCodec;
pub(crate) use view_tag::ViewTag;
pub use views::Views;
pub(crate) use views::{NamedView, ViewsCodec, other_view};

/// The options of one column in a [`LoaderSpec`](crate::LoaderSpec), which define how the column is
/// delivered.
///
/// ```
/// use forebay::{Image, LoaderSpec};
///
/// let mut spec = LoaderSpec::default();
/// spec.column("image").decode = Some(Image::random_resized_crop(224));
/// spec.column("label").fill_null = Some((-1.0).into());
/// assert_eq!(spec.by_column.len(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ColumnSpec {
    /// The type that the column's numbers are cast to. Default: the stored type.
    pub cast: Option<Cast>,
    /// The size, crop and type in which encoded images are decoded. Default: images are not decoded.
    pub decode: Option<Image>,
    /// Several views of an image that is decoded once. Each view is delivered as a column of its own.
    /// In Python this is set with `decode`. Default: none.
    pub views: Option<Views>,
    /// Several images that are delivered as one value: the images in a row's list, or the images of the rows
    /// in a window. In Python this is set with `decode`. Default: none.
    pub clips: Option<Clip>,
    /// The image that the column follows: the column's values are cropped, resized and mirrored with that
    /// image. In Python this is set with `decode`. Default: the column does not follow an image.
    pub follow: Option<Follow>,
    /// The shape and format of tensors in the column's cells. In Python this is set with `decode`. Default:
    /// cells are not read as tensors.
    pub tensors: Option<Tensor>,
    /// The format, such as JSON, that the column's text must have. In Python this is set with `decode`.
    /// Default: text is not checked.
    pub texts: Option<TextFormat>,
    /// The encoding of values as integer codes. Default: values are not encoded.
    pub encode: Option<Encoding>,
    /// The length that the column's lists are padded to. Default: lists keep their stored lengths.
    pub pad: Option<Pad>,
    /// Delivers the column as it is stored, even if a schema beside the files says how to decode it. In
    /// Python this is `None` in `decode`. Default: if no other option applies, a schema of Petastorm decides
    /// how the cells are decoded.
    pub as_stored: Option<AsStored>,
    /// The value that replaces nulls. Default: nulls are not replaced.
    pub fill_null: Option<Fill>,
}

impl ColumnSpec {
    /// Calls `each` for every option, in the order in which specs are written and loaders check options.
    pub(crate) fn each<E: EachOption>(each: &mut E) -> Result<(), E::Error> {
        macro_rules! each_field {
            ($($field:ident),*) => {
                $(each.option(Setting {
                    field: stringify!($field),
                    get: |column| column.$field.as_ref(),
                    get_mut: |column| &mut column.$field,
                })?;)*
            };
        }
        each_field!(cast, decode, views, clips, follow, tensors, texts, as_stored, encode, pad, fill_null);
        Ok(())
    }
}

/// A field of [`ColumnSpec`]: its name, and functions that read and change its value.
#[derive(Clone, Copy)]
pub(crate) struct Setting<V> {
    pub(crate) field: &'static str,
    pub(crate) get: fn(&ColumnSpec) -> Option<&V>,
    pub(crate) get_mut: fn(&mut ColumnSpec) -> &mut Option<V>,
}

/// An operation on each option that a column may have.
pub(crate) trait EachOption {
    type Error;

    /// Applies the operation to the option in this field.
    fn option<V: TypedOption>(&mut self, setting: Setting<V>) -> Result<(), Self::Error>;
}
