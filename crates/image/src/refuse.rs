//! Errors for images that are refused: their bytes are damaged, or they are larger than allowed.

use std::fmt;

use forebay_base::{Error, ErrorKind, Result, panics};

use super::format::Format;

/// The hint for images that no decoder here reads.
pub(super) const RE_ENCODE: &str = "re-encode such images as JPEG, PNG or WebP";

/// The error for a row whose bytes are not one complete image.
pub(super) fn bad_row(cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadRow, cause)
}

/// Refuses an image by the size in its header, before anything is allocated for it.
pub(super) fn check_size(width: u32, height: u32, max_pixels: u64) -> Result<()> {
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0 {
        return Err(bad_row(format!("an image of {width}x{height} pixels")));
    }
    if pixels > max_pixels {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("an image of {width}x{height} = {pixels} pixels, over the limit of {max_pixels}"),
        )
        .hint("raise max_pixels if such images are expected"));
    }
    Ok(())
}

/// The error for a damaged file, with the decoder's message.
pub(super) fn corrupt(format: Format, said: &dyn fmt::Display) -> Error {
    bad_row(format!("corrupt {format}: {}", said.to_string().trim_end_matches('.')))
}

/// Runs a decoder that may panic: some do on damaged files, and that of TIFF on tiles with separate planes.
pub(super) fn caught<T>(format: Format, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let panicked = || bad_row(format!("{format}: the decoder panicked")).hint(RE_ENCODE);
    panics::caught(work).unwrap_or_else(|_| Err(panicked()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_decoder_is_a_bad_row() {
        let error = caught(Format::Gif, || -> Result<()> { panic!("index out of bounds") }).unwrap_err();
        assert_eq!(
            error.to_string(),
            "GIF: the decoder panicked (re-encode such images as JPEG, PNG or WebP)"
        );
    }
}
