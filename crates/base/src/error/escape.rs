//! Makes text from files safe for a terminal and a log.
//!
//! Names of columns, names of programs that wrote a file, and keys of a store may hold characters that a
//! terminal obeys instead of showing, or that make one line of a log look like two.

use std::borrow::Cow;

/// Escapes control characters, line separators and marks that change the direction of writing, as in
/// `\u{1b}`, `\n` and `\u{202e}`. Other characters are unchanged.
pub fn escaped(text: &str) -> Cow<'_, str> {
    escaped_but(text, |_| false)
}

/// Escapes text of several lines like [`escaped`], but keeps its line feeds.
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    escaped_but(text, |character| character == '\n')
}

fn escaped_but(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_shown = |character: char| stays(character) || !is_obeyed(character);
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match is_shown(character) {
            true => safe.push(character),
            false => safe.extend(character.escape_default()),
        }
    }
    Cow::Owned(safe)
}

/// Whether a terminal obeys a character instead of showing it: C0, DEL and C1; separators of lines and
/// paragraphs; and all marks, embeddings, overrides and isolates of the Unicode bidirectional algorithm.
pub fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{61c}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{206f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_spelled_out() {
        assert_eq!(escaped("a\u{1b}[31mb\u{7}\u{202e}c"), "a\\u{1b}[31mb\\u{7}\\u{202e}c");
        assert_eq!(escaped("\u{9b}2J\u{7f}\r\u{2028}\u{2066}"), "\\u{9b}2J\\u{7f}\\r\\u{2028}\\u{2066}");
        assert_eq!(escaped_lines("a\nb\tc"), "a\nb\\tc");
    }

    #[test]
    fn what_people_write_stays() {
        let text = "größe, 画像, صورة, תמונה, 🙂 \\n \"x\"";
        assert!(matches!(escaped(text), Cow::Borrowed(same) if same == text));
    }
}
