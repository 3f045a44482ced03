//! Decodes masks of objects from run lengths, the form in which COCO stores them. The pixels are counted
//! column by column from the upper left corner: the first number counts pixels outside the object, the second
//! pixels inside it, and so on in turn.
//!
//! The compressed form is that of COCO's mask API (`rleToString` of `cocodataset/cocoapi`). A number is
//! divided into groups of five bits, lowest bits first. Each group becomes one character: its bits, and a
//! sixth bit that says whether another group follows, are added to the character code of `0`. From the fourth
//! number on, the difference from the number two places before is stored.

use forebay_base::Result;

use super::refuse::bad_row;
use super::spec::Size;

/// The first character of the compressed form.
const FIRST: u8 = b'0';
/// The number of bits in a character, without the one that says whether more characters follow.
const BITS: u32 = 5;
/// The largest number of characters of a run length. They hold 60 bits, more than any number of pixels needs.
const MOST_CHARACTERS: u32 = 12;

/// Decodes run lengths from the compressed form.
pub(super) fn from_text(text: &[u8]) -> Result<Vec<i64>> {
    let mut counts: Vec<i64> = Vec::new();
    let mut characters = text.iter().enumerate();
    while let Some((at, first)) = characters.next() {
        let (mut number, mut shift, mut group) = (0i64, 0, *first);
        loop {
            let bits = group.wrapping_sub(FIRST);
            if bits >= 1 << (BITS + 1) {
                return Err(bad_row(format!("run lengths with byte {group} at {at}, which is not a number")));
            }
            number |= i64::from(bits & 0x1F) << (shift * BITS);
            shift += 1;
            if bits & 0x20 == 0 {
                if bits & 0x10 != 0 {
                    number |= -1 << (shift * BITS);
                }
                break;
            }
            group = match characters.next() {
                Some((_, next)) if shift < MOST_CHARACTERS => *next,
                _ => return Err(bad_row(format!("run lengths that end inside the number at byte {at}"))),
            };
        }
        let before = if counts.len() > 2 { counts[counts.len() - 2] } else { 0 };
        // A sum that is too large becomes `i64::MAX`. `fill` then refuses it, because it is more than the
        // pixels of any mask.
        counts.push(number.saturating_add(before));
    }
    Ok(counts)
}

/// The compressed form of run lengths.
pub(super) fn to_text(counts: &[i64]) -> String {
    let mut text = String::new();
    for (at, count) in counts.iter().enumerate() {
        let mut number = if at > 2 { count - counts[at - 2] } else { *count };
        loop {
            let bits = (number & 0x1F) as u8;
            number >>= BITS;
            // The highest bit of the last group is the sign. So a group is the last one only if all bits of
            // `number`, which are left after it, equal that bit.
            let is_last = number == if bits & 0x10 == 0 { 0 } else { -1 };
            text.push(char::from(FIRST + (bits | if is_last { 0 } else { 0x20 })));
            if is_last {
                break;
            }
        }
    }
    text
}

/// The run lengths of a mask that is stored row by row. The pixels of the object are not 0.
pub(super) fn of_pixels(pixels: &[u8], Size { height, width }: Size) -> Vec<i64> {
    let (rows, columns) = (height as usize, width as usize);
    let (mut counts, mut is_inside) = (vec![0], false);
    for at in 0..pixels.len() {
        if (pixels[at % rows * columns + at / rows] != 0) != is_inside {
            is_inside = !is_inside;
            counts.push(0);
        }
        if let Some(count) = counts.last_mut() {
            *count += 1;
        }
    }
    counts
}

/// Refuses run lengths of which one is negative, or that do not add up to the number of pixels.
pub(super) fn check(counts: &[i64], Size { height, width }: Size) -> Result<()> {
    if let Some((number, count)) = counts.iter().enumerate().find(|(_, count)| **count < 0) {
        return Err(bad_row(format!("a run length of {count}, number {number} of a mask")));
    }
    let sum = counts.iter().fold(0i64, |sum, count| sum.saturating_add(*count));
    if sum != i64::from(height) * i64::from(width) {
        return Err(bad_row(format!("run lengths of {sum} pixels in all for a mask of {width}x{height}")));
    }
    Ok(())
}

/// Sets the pixels of an object to 1 in `pixels`, a mask of zeros that is stored row by row.
///
/// # Errors
/// Fails if the lengths do not [fit](check) the mask.
pub(super) fn fill(counts: &[i64], size: Size, pixels: &mut [u8]) -> Result<()> {
    check(counts, size)?;
    let Size { height, width } = size;
    let (rows, columns) = (height as usize, width as usize);
    let mut at = 0;
    for (number, count) in counts.iter().enumerate() {
        let end = at + *count as usize;
        if number % 2 == 1 {
            (at..end).for_each(|at| pixels[at % rows * columns + at / rows] = 1);
        }
        at = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { height: 3, width: 4 };

    fn filled(counts: &[i64]) -> Result<Vec<u8>> {
        let mut pixels = vec![0; 12];
        fill(counts, SIZE, &mut pixels).map(|()| pixels)
    }

    #[test]
    fn runs_go_down_the_columns() {
        assert_eq!(filled(&[1, 3, 8]).unwrap(), [0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(filled(&[0, 12]).unwrap(), [1; 12]);
        assert_eq!(filled(&[12]).unwrap(), [0; 12]);
        assert_eq!(filled(&[12, 0, 0]).unwrap(), [0; 12]);
    }

    #[test]
    fn run_lengths_are_those_of_their_pixels_and_of_their_text() {
        for counts in [&[1, 3, 8][..], &[0, 12], &[12], &[0, 1, 10, 1], &[2, 1, 1, 5, 1, 2]] {
            assert_eq!(of_pixels(&filled(counts).unwrap(), SIZE), counts);
        }
        for counts in [&[0, 15, 16, 31, 32, 1_000, 0, 40_000_000, 1, 15][..], &[12], &[]] {
            assert_eq!(from_text(to_text(counts).as_bytes()).unwrap(), counts);
        }
    }

    #[test]
    fn lengths_that_do_not_add_up_are_bad() {
        for (counts, said) in [
            (&[1, 3, 9][..], "run lengths of 13 pixels in all for a mask of 4x3"),
            (&[1, 3], "run lengths of 4 pixels in all for a mask of 4x3"),
            (&[], "run lengths of 0 pixels in all for a mask of 4x3"),
            (&[14, -2], "a run length of -2, number 1 of a mask"),
            (&[2, -1, 11], "a run length of -1, number 1 of a mask"),
            (&[i64::MAX, i64::MAX], "run lengths of 9223372036854775807 pixels in all for a mask of 4x3"),
        ] {
            assert_eq!(filled(counts).unwrap_err().to_string(), said);
        }
    }

    #[test]
    fn characters_that_are_not_numbers_are_bad() {
        assert!(from_text(b"").unwrap().is_empty());
        assert!(from_text(b"1 2").unwrap_err().to_string().contains("byte 32 at 1"));
        assert!(from_text(b"1p").unwrap_err().to_string().contains("byte 112 at 1"));
        assert!(from_text(b"1P").unwrap_err().to_string().contains("end inside the number at byte 1"));
        assert!(from_text(&[b'o'; 20]).is_err());
    }

    #[test]
    fn lengths_beyond_the_largest_integer_are_bad() {
        let large = [&b"o".repeat(MOST_CHARACTERS as usize - 1)[..], b"?"].concat();
        filled(&from_text(&large.repeat(100)).unwrap()).unwrap_err();
    }
}
