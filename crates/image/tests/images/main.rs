//! From encoded images to pixels: formats, hostile bytes, and other people's files.

mod foreign;
mod formats;
mod limits;
