//! Human-readable numbers.

use std::time::Duration;

/// `1797` as `1,797`.
pub(crate) fn count(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 row`, `2 rows`.
pub(crate) fn counted(n: usize, thing: &str) -> String {
    format!("{} {thing}{}", count(n), if n == 1 { "" } else { "s" })
}

/// `2, 5 and 10`.
pub(crate) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `0.4 s`, `12 s`, `3 min 20 s`, `2 h 05 min`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let whole = seconds.round() as u64;
    match whole {
        0..10 => format!("{seconds:.1} s"),
        10..60 => format!("{whole} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

/// A fraction as `87.3 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A bar of at most `width` blocks for `value` out of `largest`; anything above zero is visible.
pub(crate) fn bar(value: u64, largest: u64, width: usize) -> String {
    let eighths = (8 * width as u64 * value).checked_div(largest).unwrap_or(0) as usize;
    let eighths = if value > 0 { eighths.max(1) } else { 0 };
    let mut text = "█".repeat(eighths / 8);
    text.extend(" ▏▎▍▌▋▊▉".chars().nth(eighths % 8).filter(|c| *c != ' '));
    text
}

/// A file's size: `13.4 MB`.
pub(crate) fn bytes(n: u64) -> String {
    match n {
        0..1_000 => format!("{n} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", n as f64 / 1e6),
        _ => format!("{:.2} GB", n as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1000, 1234567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!((counted(1, "row"), counted(2, "row")), ("1 row".into(), "2 rows".into()));
        let listed = |n: usize| listed(&["2", "5", "10"].map(String::from)[..n]);
        assert_eq!([0, 1, 2, 3].map(listed), ["", "2", "2 and 5", "2, 5 and 10"]);
        let times = [0.44, 9.99, 59.6, 61.0, 7500.0].map(|s| duration(Duration::from_secs_f64(s)));
        assert_eq!(times, ["0.4 s", "10 s", "1 min 00 s", "1 min 01 s", "2 h 05 min"]);
        assert_eq!((bar(8, 8, 2), bar(1, 1000, 4), bar(0, 8, 2)), ("██".into(), "▏".into(), String::new()));
        assert_eq!(bytes(13_400_000), "13.4 MB");
    }
}
