//! Sizes as people write them, read in the same way by Rust, Python and the program.

use serde::de::{Deserialize, Deserializer, Error as _};

use crate::{Error, Result};

/// The first letters of the units. The letter at index `n` stands for the power `n + 1` of 1000 or 1024.
const LETTERS: [&str; 4] = ["k", "m", "g", "t"];

/// Parses a number of bytes, such as "200GB" or "200g" (powers of 1000), "4GiB" or "4Gi" (powers of 1024), or
/// "65536". Case and a space before the unit do not matter, and the number may have decimals.
///
/// ```
/// assert_eq!(forebay_base::sizes::parse("4 GiB")?, 4 << 30);
/// assert_eq!(forebay_base::sizes::parse("1.5g")?, 1_500_000_000);
/// # Ok::<(), forebay_base::Error>(())
/// ```
///
/// # Errors
/// `Invalid` for a text that is not a size, or for a size that does not fit 64 bits.
pub fn parse(text: &str) -> Result<u64> {
    let unfit = || {
        Error::invalid(format!("{text:?} is not a size")).hint("write it as 500MB, 4GiB or a number of bytes")
    };
    let lower = text.trim().to_ascii_lowercase();
    let end = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let (number, unit) = lower.split_at(end);
    let unit = factor(unit.trim_start()).ok_or_else(unfit)?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit).ok_or_else(unfit);
    }
    let (whole, decimals) = number.split_once('.').ok_or_else(unfit)?;
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let bytes = number.parse::<f64>().map_err(|_| unfit())? * unit as f64;
    (is_number(whole) && is_number(decimals) && bytes < u64::MAX as f64)
        .then(|| bytes.round() as u64)
        .ok_or_else(unfit)
}

/// The number of bytes in a unit, which is written in lower case.
fn factor(unit: &str) -> Option<u64> {
    let power = |letter: &str| LETTERS.iter().position(|known| *known == letter).map(|at| at as u32 + 1);
    match unit {
        "" | "b" => Some(1),
        letter if letter.len() == 1 => power(letter).map(|power| 1000u64.pow(power)),
        unit => match unit.split_at_checked(1)? {
            (letter, "b") => power(letter).map(|power| 1000u64.pow(power)),
            (letter, "ib" | "i") => power(letter).map(|power| 1024u64.pow(power)),
            _ => None,
        },
    }
}

/// A size in a file of options: a number of bytes, or a text with a unit.
#[derive(serde::Deserialize)]
#[serde(untagged, expecting = "not a size: give a number of bytes, or a text such as \"4GiB\"")]
enum WrittenSize {
    Number(u64),
    Text(String),
}

impl WrittenSize {
    fn bytes(self) -> Result<u64> {
        match self {
            WrittenSize::Number(bytes) => Ok(bytes),
            WrittenSize::Text(text) => parse(&text),
        }
    }
}

/// Deserializes a size that is a number of bytes, or a text as [`parse`] reads it.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    WrittenSize::deserialize(deserializer)?.bytes().map_err(D::Error::custom)
}

/// Deserializes a size like [`deserialize`], or none.
pub fn deserialize_optional<'de, D>(deserializer: D) -> Result<Option<u64>, D::Error>
where
    D: Deserializer<'de>,
{
    Option::<WrittenSize>::deserialize(deserializer)?
        .map(WrittenSize::bytes)
        .transpose()
        .map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, expected) in [
            ("0", 0),
            ("65536", 65_536),
            ("4GB", 4_000_000_000),
            ("4g", 4_000_000_000),
            (" 4 GiB ", 4 << 30),
            ("4Gi", 4 << 30),
            ("4 gi", 4 << 30),
            ("1.5k", 1_500),
            ("0.5kib", 512),
            ("200gb", 200_000_000_000),
            ("12B", 12),
            ("16777215T", 16_777_215_000_000_000_000),
        ] {
            assert_eq!(parse(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        let refused = [
            "", "GB", "-1GB", "+1GB", "four", "1e3", "1e99GB", "nan", "inf", "4q", "4 G B", "1.", ".5",
            "1.5.2", "é", "4i", "4gibi",
        ];
        for text in refused.into_iter().chain(["99999999999GB", "18446744073709551616"]) {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("is not a size (write it as 500MB, 4GiB"), "{text}: {error}");
        }
    }
}
