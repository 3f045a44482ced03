//! Refuses YAML that would take too much memory once it is parsed: an alias stands for a copy of its anchor,
//! so a few nested aliases can stand for gigabytes.

use std::collections::HashMap;

use forebay_base::{Error, ErrorKind, Result};
use yaml_rust2::Event;
use yaml_rust2::parser::Parser;

/// The most bytes that the parsed file may take. A file with the names of 100,000 classes takes a tenth.
const MAX_BYTES: u64 = 64 << 20;
/// The most lists and mappings within each other, because the parser calls itself for each.
const MAX_DEPTH: usize = 64;
/// The approximate size of a value without its text.
const VALUE_BYTES: u64 = 64;

/// A list or mapping that has not ended.
struct OpenValue {
    /// The number of its anchor; 0 if it has none.
    anchor: usize,
    bytes: u64,
}

/// Adds up the bytes that the values of a text would take, with a copy of its anchor for each alias, and
/// refuses too many. A text that is not YAML is accepted here: parsing it reports the error.
///
/// # Errors
/// Fails with the line if values take too much memory, or are nested too deep.
pub(super) fn check_size(text: &str) -> Result<()> {
    let mut parser = Parser::new_from_str(text);
    let (mut open, mut anchors) = (Vec::<OpenValue>::new(), HashMap::new());
    // The bytes of all values outside of open lists, and of the copies that anchors keep.
    let mut total = 0_u64;
    while let Ok((event, mark)) = parser.next_token() {
        let ended = match event {
            Event::StreamEnd => return Ok(()),
            Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _) => {
                open.push(OpenValue { anchor, bytes: VALUE_BYTES });
                None
            }
            Event::SequenceEnd | Event::MappingEnd => open.pop(),
            Event::Scalar(scalar, _, anchor, _) => {
                Some(OpenValue { anchor, bytes: VALUE_BYTES + scalar.len() as u64 })
            }
            Event::Alias(anchor) => {
                Some(OpenValue { anchor: 0, bytes: anchors.get(&anchor).copied().unwrap_or(VALUE_BYTES) })
            }
            Event::Nothing | Event::StreamStart | Event::DocumentStart | Event::DocumentEnd => None,
        };
        let refused = |cause: &str| {
            Error::new(ErrorKind::Corrupt, format!("line {}: {cause}", mark.line()))
                .hint("write the values out, without aliases such as *name")
        };
        if open.len() > MAX_DEPTH {
            return Err(refused("lists or mappings are nested too deep"));
        }
        let Some(OpenValue { anchor, bytes }) = ended else { continue };
        if anchor > 0 {
            anchors.insert(anchor, bytes);
            total = total.saturating_add(bytes);
        }
        match open.last_mut() {
            Some(parent) => parent.bytes = parent.bytes.saturating_add(bytes),
            None => total = total.saturating_add(bytes),
        }
        let held = open.iter().fold(total, |sum, value| sum.saturating_add(value.bytes));
        if held > MAX_BYTES {
            return Err(refused("the values take too much memory"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten lists, each of ten aliases of the list before.
    fn nested(levels: usize) -> String {
        let mut text = "a0: &a0 [lol, lol]\n".to_owned();
        for level in 1..levels {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            text += &format!("a{level}: &a{level} [{aliases}]\n");
        }
        text
    }

    #[test]
    fn aliases_of_aliases_are_counted_before_they_are_copied() {
        check_size(&nested(4)).unwrap();
        let said = check_size(&nested(10)).unwrap_err().to_string();
        assert!(said.contains("line 7: the values take too much memory"), "{said}");
        let long = format!("a: &a {}\nb: [{}]", "x".repeat(1 << 20), vec!["*a"; 100].join(", "));
        assert!(check_size(&long).unwrap_err().to_string().contains("line 2"));
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        assert!(check_size(&deep).unwrap_err().to_string().contains("nested too deep"));
    }

    #[test]
    fn usual_files_are_accepted() {
        for text in ["", "names: [kite, train]", "a: &a [1, 2]\nb: *a", "names: {0: x", "--- 1\n--- 2\n"] {
            check_size(text).unwrap();
        }
        let names: String = (0..100_000).map(|class| format!("- class {class}\n")).collect();
        check_size(&format!("names:\n{names}")).unwrap();
    }
}
