//! The parts of [Arrow](https://docs.rs/arrow) that the interface speaks of: arrays, buffers, types, and what takes and joins
//! rows.
//!
//! They are the types of the `arrow` crate of the same version, under the same paths. That crate also brings the rest of
//! Arrow, casts, comparisons and regular expressions among it, which is half a minute of everybody's build and is not
//! needed here; a program that wants it depends on `arrow` beside this library, and passes its batches on as they are.

pub(crate) mod common;
pub(crate) mod convert;
#[doc(hidden)]
pub mod names;
pub(crate) mod nested;
pub(crate) mod vectors;
mod widen;

pub use arrow_array::{ffi, record_batch};
pub use arrow_buffer::buffer;
pub use arrow_ipc as ipc;

/// Arrays of each type, their builders, and record batches.
pub mod array {
    pub use arrow_array::builder::*;
    pub use arrow_array::cast::*;
    pub use arrow_array::iterator::*;
    pub use arrow_array::*;
    pub(crate) use arrow_data::transform::MutableArrayData;
    pub use arrow_data::{ArrayData, ArrayDataBuilder, ByteView, MAX_INLINE_VIEW_LEN};
}

/// Rows taken, selected and joined.
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

/// What Arrow reports.
pub mod error {
    pub use arrow_schema::ArrowError;
}
