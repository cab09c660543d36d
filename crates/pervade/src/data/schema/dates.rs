//! Dates and timestamps: ISO 8601 as text, and seconds as numbers.

use serde::{Deserialize, Serialize};

/// Seconds per day.
const DAY: i64 = 86_400;

/// How a column writes its dates, so that cells can be written the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DateFormat {
    /// Cells count seconds from here: a midnight, in seconds since 1970-01-01 UTC. Seconds since 1970 would need more
    /// digits than single precision has.
    pub origin: i64,
    /// Between year, month and day: `-` or `/`.
    pub separator: char,
    /// How the time of day is written; `None` for dates without one.
    pub time: Option<TimeFormat>,
}

/// How a time of day is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeFormat {
    /// Between date and time: `T` or a space.
    pub separator: char,
    /// Whether there are seconds.
    pub seconds: bool,
    /// Decimal places of the seconds.
    pub decimals: u8,
    /// The time zone.
    pub zone: Zone,
}

/// The time zone of a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Zone {
    /// None is written.
    Local,
    /// `Z`.
    Utc,
    /// `+01:00`: minutes east of UTC.
    Offset(i16),
}

impl DateFormat {
    /// Dates without a time of day, written `2024-12-31`.
    pub const DAYS: DateFormat = DateFormat { origin: 0, separator: '-', time: None };

    /// Dates are at least the first and below the second, in seconds since 1970: the years 1000 to 2999. Others stand for
    /// something else, such as "never".
    pub const YEARS: [f64; 2] = [-30_610_224_000.0, 32_503_680_000.0];

    /// Timestamps, written `2024-12-31T23:59:59` and the zone.
    pub fn timestamps(zone: Zone, decimals: u8) -> Self {
        let time = TimeFormat { separator: 'T', seconds: true, decimals: decimals.min(9), zone };
        DateFormat { time: Some(time), ..Self::DAYS }
    }

    /// Whether a time zone is written; dates without a time of day have none.
    pub(super) fn has_zone(&self) -> Option<bool> {
        self.time.map(|time| time.zone != Zone::Local)
    }

    /// A format that can write what both can. Where two offsets differ, it writes UTC.
    pub(super) fn merged(self, other: Self) -> Self {
        let time = match (self.time, other.time) {
            (Some(a), Some(b)) => Some(TimeFormat {
                separator: a.separator,
                seconds: a.seconds || b.seconds,
                decimals: a.decimals.max(b.decimals),
                zone: if a.zone == b.zone { a.zone } else { Zone::Utc },
            }),
            (a, b) => a.or(b),
        };
        Self { time, ..self }
    }

    /// The text of `seconds` since the origin, rounded to what is written.
    pub(super) fn text(&self, seconds: f64) -> String {
        // Far beyond any year that is read.
        let seconds = seconds.clamp(-1e12, 1e12);
        let Some(time) = self.time else {
            let day = (seconds / DAY as f64).round() as i64;
            return date_text(day + self.origin.div_euclid(DAY), self.separator);
        };
        let per_second = 10i128.pow(u32::from(time.decimals.min(9)));
        let ticks = (seconds * per_second as f64).round() as i128;
        let (whole, fraction) = if time.seconds {
            (ticks.div_euclid(per_second) as i64, ticks.rem_euclid(per_second))
        } else {
            ((seconds / 60.0).round() as i64 * 60, 0)
        };
        let local = whole + self.origin + time.zone.seconds_east();
        let (day, of_day) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let mut text = date_text(day, self.separator);
        text.push_str(&format!("{}{:02}:{:02}", time.separator, of_day / 3600, of_day % 3600 / 60));
        if time.seconds {
            text.push_str(&format!(":{:02}", of_day % 60));
            if time.decimals > 0 {
                text.push_str(&format!(".{fraction:0width$}", width = usize::from(time.decimals.min(9))));
            }
        }
        text + &time.zone.text()
    }
}

impl Zone {
    fn seconds_east(self) -> i64 {
        if let Zone::Offset(minutes) = self { i64::from(minutes) * 60 } else { 0 }
    }

    fn text(self) -> String {
        match self {
            Zone::Local => String::new(),
            Zone::Utc => "Z".to_string(),
            Zone::Offset(east) => {
                let sign = if east < 0 { '-' } else { '+' };
                format!("{sign}{:02}:{:02}", east.unsigned_abs() / 60, east.unsigned_abs() % 60)
            }
        }
    }
}

/// Seconds since 1970-01-01 UTC of a date or timestamp, and how it is written; `None` if it is neither.
///
/// Dates are `2024-12-31` or `2024/12/31`; a time may follow a `T` or a space, with or without seconds, their decimals
/// and a zone (`Z`, `+01:00`, `+0100`, `+01`).
pub(super) fn parse(word: &str) -> Option<(f64, DateFormat)> {
    let bytes = word.as_bytes();
    let (date, rest) = (bytes.get(..10)?, &bytes[10..]);
    let separator = date[4];
    if !matches!(separator, b'-' | b'/') || date[7] != separator {
        return None;
    }
    let (year, month, day) = (digits(&date[..4])?, digits(&date[5..7])?, digits(&date[8..])?);
    if month == 0 || month > 12 || day == 0 || day > days_in_month(year, month) {
        return None;
    }
    let midnight = (days_from_civil(year, month, day) * DAY) as f64;
    let date = DateFormat { origin: 0, separator: char::from(separator), time: None };
    let (seconds, time) = match rest {
        [] => return Some((midnight, date)),
        [b'T' | b't', clock @ ..] => parse_time(clock, 'T')?,
        [b' ', clock @ ..] => parse_time(clock, ' ')?,
        _ => return None,
    };
    let east = time.zone.seconds_east() as f64;
    Some((midnight + seconds - east, DateFormat { time: Some(time), ..date }))
}

/// Whether a word looks like a date in a form that has more than one reading, such as `31/12/2024` or `12.31.24`.
pub(super) fn is_ambiguous(word: &str) -> bool {
    let first = word.split([' ', 'T']).next().unwrap_or("");
    ['/', '.', '-'].into_iter().any(|separator| {
        let parts: Vec<&str> = first.split(separator).collect();
        let is_part = |part: &&str| digits(part.as_bytes()).is_some();
        matches!(parts.as_slice(), [a, b, c] if parts.iter().all(is_part)
            && (1..=2).contains(&a.len()) && (1..=2).contains(&b.len()) && [2, 4].contains(&c.len()))
    })
}

/// Seconds since midnight and the format of `23:59`, `23:59:59`, `23:59:59.999` with or without a zone.
fn parse_time(clock: &[u8], separator: char) -> Option<(f64, TimeFormat)> {
    let end = clock.iter().position(|b| !b"0123456789:.".contains(b)).unwrap_or(clock.len());
    let (clock, zone) = (&clock[..end], clock[end..].trim_ascii());
    let zone = parse_zone(zone)?;
    let (hour, minute) = (digits(clock.get(..2)?)?, digits(clock.get(3..5)?)?);
    if clock[2] != b':' || hour > 23 || minute > 59 {
        return None;
    }
    let (second, fraction) = match &clock[5..] {
        [] => (None, &[][..]),
        [b':', a, b] => (Some(digits(&[*a, *b])?), &[][..]),
        [b':', a, b, b'.', fraction @ ..] if !fraction.is_empty() => (Some(digits(&[*a, *b])?), fraction),
        _ => return None,
    };
    // A leap second counts as the first one of the next minute.
    if second.is_some_and(|second| second > 60) || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let scaled = fraction.iter().rev().fold(0.0, |sum, b| (sum + f64::from(b - b'0')) / 10.0);
    let seconds = (hour * 3600 + minute * 60 + second.unwrap_or(0)) as f64 + scaled;
    let decimals = fraction.len().min(9) as u8;
    Some((seconds, TimeFormat { separator, seconds: second.is_some(), decimals, zone }))
}

fn parse_zone(zone: &[u8]) -> Option<Zone> {
    let (sign, hours, minutes) = match zone {
        [] => return Some(Zone::Local),
        [b'Z' | b'z'] => return Some(Zone::Utc),
        [sign @ (b'+' | b'-'), h @ ..] if h.len() == 2 => (*sign, &h[..2], &b"00"[..]),
        [sign @ (b'+' | b'-'), h @ ..] if h.len() == 4 => (*sign, &h[..2], &h[2..]),
        [sign @ (b'+' | b'-'), h @ ..] if h.len() == 5 && h[2] == b':' => (*sign, &h[..2], &h[3..]),
        _ => return None,
    };
    let (hours, minutes) = (digits(hours)?, digits(minutes)?);
    if hours > 14 || minutes > 59 {
        return None;
    }
    let east = (hours * 60 + minutes) as i16;
    Some(Zone::Offset(if sign == b'-' { -east } else { east }))
}

/// The number that some digits write; `None` if there are other characters, or none at all.
fn digits(text: &[u8]) -> Option<i64> {
    let is_number = !text.is_empty() && text.len() < 10 && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| text.iter().fold(0, |number, b| number * 10 + i64::from(b - b'0')))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a date of the Gregorian calendar. Years are counted from March, so that the day that leap
/// years add comes last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let month = (month + 9) % 12;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // From 0000-03-01 to 1970-01-01.
    const EPOCH: i64 = 719_468;
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - EPOCH
}

/// Year, month and day of a number of days since 1970-01-01: the inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    // The year is estimated from its mean length, then corrected.
    let mut year = 1970 + (days as f64 / 365.2425).floor() as i64;
    while days_from_civil(year, 1, 1) > days {
        year -= 1;
    }
    while days_from_civil(year + 1, 1, 1) <= days {
        year += 1;
    }
    let is_before = |month: &i64| days_from_civil(year, *month, 1) <= days;
    let month = (1..=12).take_while(is_before).last().unwrap_or(1);
    (year, month, days - days_from_civil(year, month, 1) + 1)
}

fn date_text(days: i64, separator: char) -> String {
    let (year, month, day) = civil_from_days(days);
    format!("{year:04}{separator}{month:02}{separator}{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds since 1970 as Python's `datetime.timestamp` has them.
    const KNOWN: [(&str, f64); 9] = [
        ("1970-01-01", 0.0),
        ("2007-11-11", 1194739200.0),
        ("2000-02-29", 951782400.0),
        ("1900/03/01", -2203891200.0),
        ("2024-12-31T23:59:59Z", 1735689599.0),
        ("2024-12-31 23:59+01:00", 1735685940.0),
        ("2024-07-01T00:00:00.250-0330", 1719804600.25),
        ("1999-12-31 12:00:00", 946641600.0),
        ("0001-01-01", -62135596800.0),
    ];

    #[test]
    fn dates_are_the_seconds_that_python_has_and_are_written_as_read() {
        for (word, seconds) in KNOWN {
            let (parsed, format) = parse(word).unwrap();
            assert_eq!(parsed, seconds, "{word}");
            let written = format.text(parsed);
            assert_eq!(written.replace("-03:30", "-0330"), word);
            let moved = DateFormat { origin: 86_400 * 10_000, ..format };
            assert_eq!(moved.text(parsed - 864_000_000.0), written, "from another origin");
        }
    }

    #[test]
    fn every_day_of_four_centuries_survives() {
        for day in days_from_civil(1799, 12, 25)..days_from_civil(2201, 1, 5) {
            let (year, month, of_month) = civil_from_days(day);
            assert_eq!(days_from_civil(year, month, of_month), day);
            assert_eq!(parse(&date_text(day, '-')).unwrap().0, (day * DAY) as f64);
        }
    }

    #[test]
    fn years_are_from_1000_to_2999() {
        assert_eq!(DateFormat::YEARS, ["1000-01-01", "3000-01-01"].map(|word| parse(word).unwrap().0));
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for word in [
            "2023-02-29",
            "2024-13-01",
            "2024-00-10",
            "2024-01-32",
            "2024-1-1",
            "20240101",
            "2024-01/01",
            "2024-01-01T24:00",
            "2024-01-01T1:00",
            "2024-01-01 10:00 CET",
            "2024-01-01T10:00:00.",
            "",
            "12:30",
            "2024-01-01x",
            "é2024-01-01",
            "2024-01-01T10:00+15:00",
        ] {
            assert!(parse(word).is_none(), "{word}");
        }
        for word in ["31/12/2024", "12/31/24", "1.2.2003 12:00", "31-12-2024"] {
            assert!(is_ambiguous(word) && parse(word).is_none(), "{word}");
        }
        for word in ["2024-12-31", "1.2", "1/2", "a/b/cd", "127.0.0.1", "555-123-4567"] {
            assert!(!is_ambiguous(word), "{word}");
        }
    }

    #[test]
    fn formats_are_merged_and_cells_rounded() {
        let merged = |words: &[&str]| {
            words.iter().map(|word| parse(word).unwrap().1).reduce(DateFormat::merged).unwrap()
        };
        let both = merged(&["2024-06-01", "2024-06-01 10:00", "2024-06-01 10:00:30.5"]);
        assert_eq!(both.text(parse("2024-06-01").unwrap().0 + 59.96), "2024-06-01 00:01:00.0");
        let zones = merged(&["2024-06-01T10:00+02:00", "2024-12-01T10:00+01:00"]);
        assert_eq!(zones.text(parse("2024-06-01T10:00+02:00").unwrap().0), "2024-06-01T08:00Z");
        assert_eq!(DateFormat::DAYS.text(86_400.0 * 0.6), "1970-01-02");
        assert!(!DateFormat::DAYS.text(f64::MAX).is_empty() && !both.text(f64::MIN).is_empty());
    }
}
