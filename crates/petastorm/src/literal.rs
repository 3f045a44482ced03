//! Parses the lines of text on which pickles of protocol 0 hold numbers and texts.

/// Parses an integer. It may end in `L`, which Python 2 wrote after long integers.
pub(crate) fn number(line: &[u8]) -> Option<i64> {
    let line = str::from_utf8(line).ok()?;
    line.strip_suffix('L').unwrap_or(line).parse().ok()
}

/// The bytes of a text in quotes, with its backslash escapes decoded.
pub(crate) fn unquoted(line: &[u8]) -> Option<Vec<u8>> {
    let (quote, rest) = line.split_first()?;
    let (end, inner) = rest.split_last()?;
    if !matches!(quote, b'\'' | b'"') || end != quote {
        return None;
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'x' => u8::try_from(hexadecimal(&mut rest, 2)?).ok()?,
                byte @ (b'\\' | b'\'' | b'"') => *byte,
                _ => return None,
            },
            byte => *byte,
        });
    }
    Some(bytes)
}

/// Decodes a text in which characters above 255, and some others, are written as `\u` or `\U` escapes. Every
/// other byte is one character.
pub(crate) fn unescaped(line: &[u8]) -> Option<String> {
    // The text is collected as UTF-16, because Python 2 wrote characters above U+FFFF as two escapes.
    let mut units = Vec::with_capacity(line.len());
    let mut rest = line.iter();
    while let Some(byte) = rest.next() {
        let next = rest.as_slice().first();
        let digits = match (byte, next) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => {
                units.push(u16::from(*byte));
                continue;
            }
        };
        rest.next();
        match hexadecimal(&mut rest, digits)? {
            unit @ 0..=0xffff => units.push(u16::try_from(unit).ok()?),
            character => units.extend_from_slice(char::from_u32(character)?.encode_utf16(&mut [0; 2])),
        }
    }
    String::from_utf16(&units).ok()
}

/// Reads the next `digits` characters as a hexadecimal number.
fn hexadecimal(rest: &mut std::slice::Iter<'_, u8>, digits: usize) -> Option<u32> {
    (0..digits).try_fold(0, |number, _| Some((number << 4) | char::from(*rest.next()?).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_text_is_what_python_2_says_it_is() {
        assert_eq!(unquoted(br"'a\\b\'c\x00\n'").as_deref(), Some(&b"a\\b'c\0\n"[..]));
        assert_eq!(unquoted(br#""it's""#).as_deref(), Some(&b"it's"[..]));
        for wrong in [&b"'"[..], b"", b"'a", b"a", b"'a\"", br"'\", br"'\x0'", br"'\q'"] {
            assert_eq!(unquoted(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn an_escaped_text_may_have_any_character() {
        assert_eq!(
            unescaped(b"caf\xe9 \\u20ac \\U0001f600 \\ud83d\\ude00 \\x").as_deref(),
            Some("café € 😀 😀 \\x")
        );
        for wrong in [&br"\u12"[..], br"\U00110000", br"\ud83d", br"\uzzzz"] {
            assert_eq!(unescaped(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_number_may_be_long_but_not_longer_than_64_bits() {
        assert_eq!([number(b"-7"), number(b"7L"), number(b"")], [Some(-7), Some(7), None]);
        assert_eq!(number(b"9223372036854775808"), None);
    }
}
