//! Encodes pixels as a JPEG, for tests, examples and smaller copies.

use forebay_base::{Error, Result};

use super::super::spec::RGB;
use super::ffi;

/// Encodes RGB pixels (`height * width * 3` bytes, interleaved) as a baseline JPEG with 4:2:0 chroma
/// subsampling.
///
/// `quality` is libjpeg's scale from 1 to 100.
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid size or quality, or pixels of another
/// length.
pub fn encode_jpeg(rgb: &[u8], width: u32, height: u32, quality: u8) -> Result<Vec<u8>> {
    if rgb.len() as u64 != u64::from(width) * u64::from(height) * RGB as u64 {
        return Err(Error::invalid(format!("{} bytes for {width}x{height} RGB pixels", rgb.len())));
    }
    let settings = [ffi::quality(quality), ffi::chroma_sampling(ffi::HALVED_CHROMA)];
    ffi::compress(rgb, width, height, &settings)
        .map_err(|message| Error::invalid(format!("JPEG encoder: {message}")))
}
