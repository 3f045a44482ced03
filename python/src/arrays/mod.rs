//! Columns as numpy arrays: views of their memory, numpy's own kinds of text, and Python objects.

mod address;
mod dispatch;
mod kind;
mod memory;
pub(crate) mod nulls;
mod objects;
pub(crate) mod records;
mod texts;

pub(crate) use address::address;
pub(crate) use dispatch::{array, numbers};
pub(crate) use memory::view;
