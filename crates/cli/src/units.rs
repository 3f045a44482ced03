//! Amounts as people write and read them, such as "4GiB", "110.3 KB", "1,281,167" and "12.5 ms".

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};

/// Parses the path of a local file or folder that will be written.
pub(crate) fn local_path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(forebay_base::paths::local)
}

/// Parses a whole number of at least `LEAST`.
pub(crate) fn whole<T: TryFrom<u64>, const LEAST: u64>(text: &str) -> Result<T, String> {
    let most = u64::MAX >> (u64::BITS as usize - 8 * size_of::<T>());
    let number = |text: &str| text.trim().parse::<u64>().ok().filter(|number| *number >= LEAST);
    number(text).and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
        let meant = written_out(text).filter(|digits| number(digits).is_some_and(|meant| meant <= most));
        let example = meant.map_or(String::new(), |digits| format!(", such as {digits}"));
        format!("must be a whole number from {LEAST} to {}{example}", count(most))
    })
}

/// The digits of a whole number that is written in another way, such as 1e3, 1,000 or 1_000.
fn written_out(text: &str) -> Option<String> {
    /// The largest number up to which all whole numbers are exact in a float.
    const EXACT: f64 = (1_u64 << 53) as f64;
    let text = text.trim().replace([',', '_'], "");
    let number = text.parse::<f64>().ok().filter(|number| number.fract() == 0.0 && number.abs() <= EXACT)?;
    Some(format!("{number:.0}"))
}

/// Parses a share of the time of a step: 0 or more, and less than 1.
pub(crate) fn parse_share(text: &str) -> Result<f32, String> {
    let share = text.trim().parse::<f32>().ok().filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "must be 0 or more and below 1, such as 0.2".to_owned())
}

/// Parses a factor above 0.
pub(crate) fn parse_factor(text: &str) -> Result<f64, String> {
    let factor = text.trim().parse::<f64>().ok().filter(|factor| factor.is_finite() && *factor > 0.0);
    factor.ok_or_else(|| "must be a number above 0, such as 0.01".to_owned())
}

/// Parses bytes, such as "200GB", "4GiB", "1.5g" or "65536", in the forms that the Python package accepts.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    forebay_base::sizes::parse(text).map_err(|error| error.to_string())
}

/// Parses a width and a height, such as "500x375".
pub(crate) fn parse_extent(text: &str) -> Result<(u32, u32), String> {
    text.split_once(['x', 'X', '×'])
        .and_then(|(width, height)| Some((width.trim().parse().ok()?, height.trim().parse().ok()?)))
        .filter(|&(width, height)| width > 0 && height > 0)
        .ok_or_else(|| format!("{text:?} is not a width and a height such as 500x375"))
}

/// Parses milliseconds, as `--step-ms` takes them, such as "125" or "0.375".
pub(crate) fn parse_milliseconds(text: &str) -> Result<Duration, String> {
    text.trim()
        .parse::<f64>()
        .ok()
        .filter(|ms| *ms >= 0.0)
        .and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok())
        .ok_or_else(|| format!("{text:?} is not a number of milliseconds such as 125 or 0.375"))
}

/// Parses seconds, as `--seconds` takes them, such as "30" or "0.5".
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    text.trim()
        .parse::<f64>()
        .ok()
        .filter(|seconds| *seconds > 0.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("{text:?} is not a number of seconds such as 30 or 0.5"))
}

/// Formats bytes, such as "110.3 KB", in powers of ten as disks and networks are sold.
pub(crate) fn bytes(amount: u64) -> String {
    const UNITS: [&str; 5] = ["KB", "MB", "GB", "TB", "PB"];
    if amount < 1_000 {
        return format!("{amount} B");
    }
    let mut value = amount as f64 / 1e3;
    let mut unit = 0;
    // A value of 999.95 would be printed as "1000.0".
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1e3;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Formats a number with separators, such as "1,281,167".
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a number of things, such as "3 files" and "1 file".
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// Formats a duration, such as "850 ns", "12.5 ms", "3.2 s" or "4 min 10 s".
pub(crate) fn seconds(time: f64) -> String {
    match time {
        t if t < 1e-6 => format!("{:.0} ns", t * 1e9),
        t if t < 1e-3 => format!("{:.1} µs", t * 1e6),
        t if t < 1.0 => format!("{:.1} ms", t * 1e3),
        t if t < 120.0 => format!("{t:.2} s"),
        t => format!("{} min {:02} s", t as u64 / 60, t as u64 % 60),
    }
}

/// Formats a share, such as "97.3 %".
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_and_times_are_read() {
        assert_eq!(parse_extent("500x375"), Ok((500, 375)));
        assert!(parse_extent("500").is_err() && parse_extent("0x4").is_err());
        assert_eq!(parse_milliseconds("0.375"), Ok(Duration::from_micros(375)));
        assert!(parse_milliseconds("-1").is_err() && parse_milliseconds("inf").is_err());
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(parse_seconds("0").is_err() && parse_seconds("soon").is_err());
    }

    #[test]
    fn whole_numbers_are_read_within_their_limits() {
        assert_eq!(whole::<u32, 0>("0"), Ok(0));
        assert_eq!(whole::<u64, 1>("18446744073709551615"), Ok(u64::MAX));
        for text in
            ["", "-1", "0", "abc", "1.5", "1e-3", "1e10", "4294967296", "0x10", "99999999999999999999999"]
        {
            assert_eq!(
                whole::<u32, 1>(text),
                Err("must be a whole number from 1 to 4,294,967,295".into()),
                "{text}"
            );
        }
        for (text, meant) in
            [("1e3", "1000"), ("1,000", "1000"), ("1_000", "1000"), ("2.5e6", "2500000"), ("12.0", "12")]
        {
            let said = whole::<u64, 1>(text).unwrap_err();
            assert!(said.ends_with(&format!(", such as {meant}")), "{text}: {said}");
        }
        assert!(parse_share("0.2").is_ok() && parse_share("1").is_err() && parse_share("NaN").is_err());
        assert!(parse_factor("0.01").is_ok() && parse_factor("0").is_err() && parse_factor("inf").is_err());
    }

    #[test]
    fn amounts_are_shown_with_their_unit() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(110_312), "110.3 KB");
        assert_eq!(bytes(999_999_999), "1.0 GB");
        assert_eq!(count(1_281_167), "1,281,167");
        assert_eq!(count(12), "12");
        assert_eq!(counted(1, "file"), "1 file");
        assert_eq!(seconds(0.0125), "12.5 ms");
        assert_eq!(seconds(250.0), "4 min 10 s");
    }
}
