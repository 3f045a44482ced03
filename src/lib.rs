//! Feeds GPU training straight from Parquet.

pub mod decode;
pub mod error;

pub use decode::{Image, Layout, PixelType};
pub use error::{Error, ErrorKind, Place, Result};
