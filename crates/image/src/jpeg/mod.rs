//! Decodes JPEGs with libjpeg-turbo, and with a faster decoder of this crate ([`entropy`]) where it can: only
//! the rows and columns that are needed, and at the scale that is needed.
//!
//! For a crop of a file with one scan, rows above the crop are only entropy-decoded, rows below it are not
//! read, and columns beside it are not transformed. For a progressive file, all coefficients are decoded, but
//! only the crop is transformed. All other files (several scans that are not progressive, invalid progressive
//! files, unusual chroma sampling, CMYK, images that EXIF rotates) are decoded as a whole.

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
