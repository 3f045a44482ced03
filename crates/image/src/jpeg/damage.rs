//! Classifies the messages of libjpeg-turbo as harmless warnings or errors.
//!
//! After a warning, libjpeg-turbo continues and may invent pixels, so this crate stops at the first one. If
//! it is harmless, the image is decoded again. The texts below are those of `jerror.h`.

use forebay_base::{Error, ErrorKind};

use super::super::refuse::bad_row;

/// The warnings that do not affect pixels if a segment before the first scan causes them, or a scan's header.
const HARMLESS_IN_HEADER: [&str; 4] = [
    "Warning: unknown JFIF revision",
    "Unknown Adobe color transform code",
    "extraneous bytes before marker",
    "Invalid SOS parameters for sequential JPEG",
];

/// The texts of messages that are about a limit rather than damage.
const LIMITS: [&str; 4] = ["Memory limit", "Insufficient memory", "too large", "scans"];

const PREFIXES: [&str; 3] = ["Corrupt JPEG data: ", "Warning: ", "tj3Decompress8(): "];

/// Whether a warning is harmless, if it is about a header. The caller then decodes the image again without
/// the parts of its headers that may have caused the warning.
pub(super) fn is_harmless_in_header(message: &str) -> bool {
    HARMLESS_IN_HEADER.iter().any(|harmless| message.contains(harmless))
}

/// Whether a warning is about bytes between the last sample and the end marker.
pub(super) fn is_padding(message: &str) -> bool {
    message.contains("extraneous bytes before marker 0xd9")
}

/// Turns the library's message into an error.
pub(super) fn error(message: &str) -> Error {
    if LIMITS.iter().any(|limit| message.contains(limit)) {
        return Error::new(ErrorKind::TooLarge, format!("JPEG: {message}"));
    }
    let bare = PREFIXES.iter().fold(message, |text, prefix| text.strip_prefix(prefix).unwrap_or(text));
    let mut chars = bare.chars();
    let lower: String = chars.next().into_iter().flat_map(char::to_lowercase).chain(chars).collect();
    bad_row(format!("corrupt JPEG: {lower}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_causes() {
        for (message, cause, kind) in [
            (
                "Corrupt JPEG data: premature end of data segment",
                "corrupt JPEG: premature end of data segment",
                ErrorKind::BadRow,
            ),
            ("Premature end of JPEG file", "corrupt JPEG: premature end of JPEG file", ErrorKind::BadRow),
            ("Memory limit exceeded", "JPEG: Memory limit exceeded", ErrorKind::TooLarge),
        ] {
            let error = error(message);
            assert_eq!((error.cause(), error.kind()), (cause, kind));
        }
    }
}
