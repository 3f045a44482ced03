//! Texts in a position: whole where they are short, and else a hash of them.
//!
//! A filter may list thousands of values, and a position is to be kept with each checkpoint. To compare two filters their hashes
//! are enough; the text is there so that the rows of a run can be asked of a position alone.

use forebay_base::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_128;

/// Bytes of the longest text that is kept whole: a position with a filter and samples of this length, and with all the steps that it
/// may pass over, has less than 64 KiB.
const LONGEST: usize = 2 << 10;

/// Begins a hash. No text in canonical form does.
const HASH: &str = "xxh3-128:";

/// A text as a position has it. Of one that a position had already it is the same.
pub(crate) fn kept_text(text: String) -> String {
    if text.len() > LONGEST { format!("{HASH}{:032x}", xxh3_128(text.as_bytes())) } else { text }
}

/// The text that a position has, of its `what`.
///
/// Fails with `StateMismatch` if it has a hash of it alone.
pub(crate) fn whole_text<'a>(text: &'a str, what: &str) -> Result<&'a str> {
    if !text.starts_with(HASH) {
        return Ok(text);
    }
    let cause = format!("the state has a hash of its {what} alone, for it has more than {LONGEST} bytes");
    Err(Error::new(ErrorKind::StateMismatch, cause)
        .hint("build the loader as it was then, restore the state, and ask it with `which`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_a_hash_and_stays_the_same() {
        let short = "{\"in\":[1]}".repeat(LONGEST / 10);
        assert_eq!(kept_text(short.clone()), short);
        assert_eq!(whole_text(&short, "filter").unwrap(), short);
        let long = short.clone() + &short;
        let hash = kept_text(long.clone());
        assert!(hash.len() < 50 && hash != kept_text(long + " "), "{hash}");
        assert_eq!(kept_text(hash.clone()), hash);
        assert!(whole_text(&hash, "filter").unwrap_err().to_string().contains("hash of its filter"));
    }
}
