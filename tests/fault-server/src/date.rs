//! Formats points in time as HTTP and S3 write them.

use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// The days of the week from 1 January 1970 on, which was a Thursday.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// A time as in `Last-Modified: Tue, 29 Feb 2028 12:30:05 GMT`.
pub(crate) fn http(time: SystemTime) -> String {
    let Civil { year, month, day, hour, minute, second, weekday } = civil(time);
    let (weekday, month) = (WEEKDAYS[weekday], MONTHS[month - 1]);
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT")
}

/// A time as in `<LastModified>2028-02-29T12:30:05.250Z</LastModified>`.
pub(crate) fn iso(time: SystemTime) -> String {
    let Civil { year, month, day, hour, minute, second, .. } = civil(time);
    let millis = since_epoch(time).subsec_millis();
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

struct Civil {
    year: u64,
    month: usize,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    weekday: usize,
}

fn since_epoch(time: SystemTime) -> std::time::Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The calendar date of a time. The calculation begins each year in March, so that the leap day is its last
/// day, and groups years into eras of 400 years.
fn civil(time: SystemTime) -> Civil {
    let seconds = since_epoch(time).as_secs();
    let days = seconds / 86_400;
    let from_march_of_year_0 = days + 719_468;
    let (era, day_of_era) = (from_march_of_year_0 / 146_097, from_march_of_year_0 % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months_from_march = (5 * day_of_year + 2) / 153;
    let month = if months_from_march < 10 { months_from_march + 3 } else { months_from_march - 9 };
    Civil {
        year: era * 400 + year_of_era + u64::from(month <= 2),
        month: month as usize,
        day: day_of_year - (153 * months_from_march + 2) / 5 + 1,
        hour: seconds / 3_600 % 24,
        minute: seconds / 60 % 60,
        second: seconds % 60,
        weekday: (days % 7) as usize,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_609_459_199, "Thu, 31 Dec 2020 23:59:59 GMT"),
            (1_835_440_205, "Tue, 29 Feb 2028 12:30:05 GMT"),
        ] {
            assert_eq!(http(UNIX_EPOCH + Duration::from_secs(seconds)), date);
        }
        assert_eq!(iso(UNIX_EPOCH + Duration::from_millis(1_835_440_205_250)), "2028-02-29T12:30:05.250Z");
    }
}
