//! The parts of Arrow that [forebay](https://docs.rs/forebay) uses, under the paths of the `arrow` crate. The
//! crate also names types for messages, changes nested types, and converts columns whose types differ between
//! files.
//!
//! Most of the `arrow` crate is left out.

pub mod common;
pub mod convert;
pub mod evolve;
pub mod fail;
mod misfit;
pub mod names;
pub mod nested;
pub mod statistics;
pub mod vectors;
mod widen;

pub use arrow_array::{ffi, ffi_stream, record_batch};
pub use arrow_buffer::buffer;
pub use arrow_ipc as ipc;

/// Arrays of each type, their builders, and record batches.
pub mod array {
    pub use arrow_array::builder::*;
    pub use arrow_array::cast::*;
    pub use arrow_array::iterator::*;
    pub use arrow_array::*;
    pub use arrow_data::transform::MutableArrayData;
    pub use arrow_data::{ArrayData, ArrayDataBuilder, ByteView, MAX_INLINE_VIEW_LEN};
}

/// Functions that take, select and join rows.
pub mod compute {
    pub use arrow_select::concat::{concat, concat_batches};
    pub use arrow_select::filter::{filter, filter_record_batch};
    pub use arrow_select::interleave::interleave;
    pub use arrow_select::take::{TakeOptions, take, take_arrays, take_record_batch};
    pub use arrow_select::zip::zip;
}

/// Types, fields and schemas.
pub mod datatypes {
    pub use arrow_array::types::*;
    pub use arrow_array::{ArrowNativeTypeOp, ArrowNumericType, ArrowPrimitiveType};
    pub use arrow_buffer::{ArrowNativeType, ToByteSlice, i256};
    pub use arrow_schema::{
        DataType, Field, FieldRef, Fields, IntervalUnit, Metadata, Schema, SchemaBuilder, SchemaRef,
        TimeUnit, UnionFields, UnionMode,
    };
}

/// The errors of Arrow.
pub mod error {
    pub use arrow_schema::ArrowError;
}
