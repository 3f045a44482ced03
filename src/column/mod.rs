//! Codecs: how the stored cells of a column become values of a batch.
//!
//! ```text
//! stored cells ─┬─ gather ──────────────┬──────────────► column of the batch   plain, lists of tensors, text, encoding
//!               │                       └─ follow ─────► column of the batch   boxes, points
//!               └─ decode, cell by cell ─► slots ──────► column of the batch   image, mask, tensor, decoder
//! ```
//!
//! [`Codec`] is all that the loader, the row cache and the statistics know of a column: a new type of column is one
//! file here that implements one of its traits, and one line where the builder creates it. Threads, tasks and buffers belong
//! to `loader/collate`, which calls a codec once for each column and, where cells are decoded, once for each cell.

mod cast;
mod cell;
mod codec;
mod decoder;
mod encoding;
mod extension;
mod follow;
mod form;
mod image;
mod masked;
mod nulls;
mod pad;
mod plain;
mod ragged;
mod tensor;
mod tensors;
mod text;
mod vectors;

pub use crate::batch::Fill;
pub(crate) use cast::{CastCodec, by_name as cast_by_name, cast_field};
pub(crate) use cell::{Cell, RowCells};
pub(crate) use codec::{
    BadValue, Codec, Column, DecodeCells, DrawNumbers, FollowImage, FollowedRows, Gather, GatheredRows,
    RowSize,
};
pub use decoder::Decoder;
pub(crate) use decoder::DecoderCodec;
pub use encoding::{Categories, CategoryCounts, Encoding, Hash, Vocabulary};
pub use extension::is_packed;
pub(crate) use extension::{EXTENSION_METADATA, EXTENSION_NAME, packed_metadata};
pub(crate) use follow::{
    AlongCodec, BoxesCodec, Followed, GeometryCodec, KeypointsCodec, MaskCodec, SizeCodec,
};
pub use follow::{BoxFormat, Boxes, Follow, Keypoints, Mask};
pub(crate) use form::{CacheForm, Cost, KeptForm};
pub(crate) use image::ImageCodec;
pub(crate) use masked::{MaskedCodec, NullMaskCodec, masked_fill};
pub(crate) use nulls::{Noun, NullOptions, NullSlot};
pub use pad::Pad;
pub(crate) use pad::{PadCodec, PadMaskCodec};
pub(crate) use plain::PlainCodec;
pub(crate) use ragged::images;
pub(crate) use tensor::{tensor, tensor_field};
pub(crate) use tensors::{Declared, tensor_shape};
pub use tensors::{Tensor, TensorFormat};
pub(crate) use text::TextCodec;
pub use text::TextFormat;
pub(crate) use vectors::VectorCodec;
