//! JPEG through libjpeg-turbo: only the rows and columns that are needed, at the scale that is needed.
//!
//! A crop of a one-scan file is decoded inside the library: rows above it are only entropy-decoded, rows
//! below it are not read, and columns beside it are not transformed. For a progressive file all coefficients
//! are decoded, and the rest is done for the crop only. Everything else (other files of several scans,
//! invalid progressive ones, unusual sampling, CMYK, images turned by EXIF) is decoded as a whole.

mod coefficients;
mod damage;
mod decoder;
mod encode;
mod entropy;
mod ffi;
mod file;
mod markers;
mod region;
mod repair;
#[cfg(test)]
mod tests;

pub(super) use coefficients::{coefficients_seen_size, is_coefficients, most_bytes};
pub(super) use decoder::Decoder;
pub use encode::encode_jpeg;
pub(super) use file::{orientation, probe};
