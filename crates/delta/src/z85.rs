//! Decodes Z85, ZeroMQ's encoding of bytes as text: five characters of an alphabet of 85 stand for four
//! bytes.

/// The characters in the order of their values.
const CHARACTERS: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// Decodes a text; `None` if its length is not a multiple of five or a character is not in the alphabet.
pub(crate) fn decoded(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(5) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 5 * 4);
    for five in text.as_bytes().chunks(5) {
        let value = five.iter().try_fold(0u32, |value, character| {
            let digit = CHARACTERS.iter().position(|known| known == character)?;
            value.checked_mul(85)?.checked_add(digit as u32)
        });
        bytes.extend(value?.to_be_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_characters_are_four_bytes() {
        assert_eq!(decoded("HelloWorld").unwrap(), [0x86, 0x4f, 0xd2, 0x6f, 0xb5, 0x59, 0xf7, 0x5b]);
        assert_eq!(decoded("").unwrap(), [0u8; 0]);
        for other in ["Hell", "Hell~", "#####", "Hellé"] {
            assert_eq!(decoded(other), None, "{other}");
        }
    }
}
