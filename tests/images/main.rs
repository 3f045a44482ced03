//! From encoded images to pixels: formats, hostile bytes, and the part that a loader delivers.

mod foreign;
mod formats;
mod limits;
mod pixels;
