//! Stores texts, such as a filter, in a position (the saved state of a run): short texts unchanged, long ones
//! as a hash.
//!
//! A filter may list thousands of values, and a position is kept with each checkpoint. Hashes are enough to
//! compare two filters; the text is kept so that the rows of a run can be found from a position alone.

use forebay_base::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_128;

/// The length in bytes of the longest text that is kept unchanged. A position has less
/// than 64 KiB even if its filter and its definition of a sample are of this length and it has the most
/// skipped ranges.
const MAX_TEXT_BYTES: usize = 2 << 10;

/// The prefix of a hash. No text in canonical form begins with it.
const HASH_PREFIX: &str = "xxh3-128:";

/// The form in which a position stores a text. A text that comes from a position is returned unchanged.
pub(crate) fn kept_text(text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        format!("{HASH_PREFIX}{:032x}", xxh3_128(text.as_bytes()))
    } else {
        text
    }
}

/// Returns the text that a position stores, unless it is only a hash.
///
/// Fails with `StateMismatch` if it is a hash; `what` is the name of the text in the error message.
pub(crate) fn whole_text<'a>(text: &'a str, what: &str) -> Result<&'a str> {
    if !text.starts_with(HASH_PREFIX) {
        return Ok(text);
    }
    let cause =
        format!("the state has only a hash of its {what}, which takes more than {MAX_TEXT_BYTES} bytes");
    Err(Error::new(ErrorKind::StateMismatch, cause)
        .hint("build the loader as it was when it saved the state, load the state, and call its `which`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_a_hash_and_stays_the_same() {
        let short = "{\"in\":[1]}".repeat(MAX_TEXT_BYTES / 10);
        assert_eq!(kept_text(short.clone()), short);
        assert_eq!(whole_text(&short, "filter").unwrap(), short);
        let long = short.clone() + &short;
        let hash = kept_text(long.clone());
        assert!(hash.len() < 50 && hash != kept_text(long + " "), "{hash}");
        assert_eq!(kept_text(hash.clone()), hash);
        assert!(whole_text(&hash, "filter").unwrap_err().to_string().contains("hash of its filter"));
    }
}
