//! Codecs: how the stored cells of a column become values of a batch.
//!
//! ```text
//! stored cells ─┬─ gather ──────────────┬──────────────► column of the batch   plain, lists of tensors, text, encoding
//!               │                       └─ follow ─────► column of the batch   boxes, points
//!               └─ decode, cell by cell ─► slots ──────► column of the batch   image, mask, tensor, decoder
//! ```
//!
//! [`Codec`] is all that the loader, the row cache and the statistics know of a column: a new type of column is one
//! file here that implements one of its traits. Threads, tasks and buffers belong to `loader/collate`, which calls a codec
//! once for each column and, where cells are decoded, once for each cell.
//!
//! [`ColumnSpec`] is all that a user says of a column. An option is a field of it, and a file here says what comes of it.

mod arrays;
mod as_stored;
mod by_column;
mod cache_form;
mod cast;
mod cell;
mod codec;
mod decoder;
mod encoding;
mod exact;
mod extension;
mod follow;
mod form;
mod image;
mod masked;
mod noun;
mod nulls;
mod option;
mod pad;
mod plain;
mod ragged;
mod spec;
mod tensor;
mod tensors;
mod text;
mod text_bytes;
mod unischema;
mod vectors;

use forebay_image::Image;

pub use crate::batch::Fill;
pub(crate) use arrays::{Arrays, ArraysCodec};
pub use as_stored::AsStored;
pub(crate) use by_column::{deserialize as read_options, serialize as write_options};
pub(crate) use cache_form::CacheForm;
pub use cast::Cast;
pub(crate) use cast::{CastCodec, cast_field};
pub(crate) use cell::{Cell, RowCells};
pub(crate) use codec::{
    BadValue, Codec, Column, DecodeCells, DrawNumbers, FollowImage, FollowedRows, Gather, GatheredRows, Held,
    RowSize,
};
pub use decoder::Decoder;
pub(crate) use decoder::DecoderCodec;
pub(crate) use encoding::CodeValues;
pub use encoding::{Categories, CategoryCounts, Encoding, Hash, Vocabulary};
pub use extension::is_packed;
pub(crate) use extension::{EXTENSION_METADATA, EXTENSION_NAME, packed_metadata};
pub(crate) use follow::{
    AlongCodec, BoxesCodec, Followed, GeometryCodec, KeypointsCodec, MaskCodec, SizeCodec,
};
pub use follow::{BoxFormat, Boxes, Follow, Keypoints, Mask};
pub(crate) use form::{Cost, KeptForm};
pub(crate) use image::ImageCodec;
pub(crate) use masked::{MaskedCodec, NullMaskCodec, masked_fill};
pub(crate) use noun::Noun;
pub(crate) use nulls::{NullOptions, NullSlot};
pub(crate) use option::{ColumnOption, TypedOption};
pub use pad::Pad;
pub(crate) use pad::PadMaskCodec;
pub(crate) use plain::PlainCodec;
pub(crate) use ragged::images;
pub(crate) use spec::Given;
pub(crate) use tensor::{tensor, tensor_field};
pub(crate) use tensors::{Declared, tensor_shape};
pub use tensors::{Tensor, TensorFormat};
pub use text::TextFormat;
pub(crate) use unischema::Decoding;
pub(crate) use vectors::VectorCodec;

/// What a [`LoaderSpec`](crate::LoaderSpec) says of one column: as what it is delivered.
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
    /// The type that its numbers are delivered as. Default: the stored one.
    pub cast: Option<Cast>,
    /// How encoded images are decoded to pixels. Default: they are not.
    pub decode: Option<Image>,
    /// How it is cropped, resized and mirrored with an image; in Python this is given with `decode`. Default: not at all.
    pub follow: Option<Follow>,
    /// How its cells hold tensors of one shape; in Python this is given with `decode`. Default: they do not.
    pub tensors: Option<Tensor>,
    /// What its text is, which is checked; in Python this is given with `decode`. Default: it is not checked.
    pub texts: Option<TextFormat>,
    /// How its values are delivered as integer codes. Default: they are not.
    pub encode: Option<Encoding>,
    /// How its lists are delivered as rows of one length. Default: they are as long as they are stored.
    pub pad: Option<Pad>,
    /// Whether it is delivered as it is stored, whatever a schema beside the files says of it; in Python this
    /// is None in `decode`. Default: a schema of Petastorm says how its cells are decoded, where no other
    /// option does.
    pub as_stored: Option<AsStored>,
    /// The value that replaces nulls. Default: none.
    pub fill_null: Option<Fill>,
}

impl ColumnSpec {
    /// Calls `each` for every option, in the order in which specs write them and loaders check them.
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
        each_field!(cast, decode, follow, tensors, texts, as_stored, encode, pad, fill_null);
        Ok(())
    }
}

/// A field of [`ColumnSpec`].
#[derive(Clone, Copy)]
pub(crate) struct Setting<V> {
    pub(crate) field: &'static str,
    pub(crate) get: fn(&ColumnSpec) -> Option<&V>,
    pub(crate) get_mut: fn(&mut ColumnSpec) -> &mut Option<V>,
}

/// What is done for each option that a column may have.
pub(crate) trait EachOption {
    type Error;

    /// Does it for the option in this field.
    fn option<V: TypedOption>(&mut self, setting: Setting<V>) -> Result<(), Self::Error>;
}
