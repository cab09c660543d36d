//! Numbers with a decimal comma, as spreadsheets write them in much of Europe: `3,14`, and `1.234,56` with separators of thousands.

use std::borrow::Cow;

/// What may stand between groups of three digits: a point, an apostrophe, or one of the spaces.
const SEPARATORS: [char; 5] = ['.', '\'', ' ', '\u{a0}', '\u{202f}'];

/// A number with a decimal point instead of a comma; other text as it is.
pub(super) fn with_point(text: &str) -> Cow<'_, str> {
    let number = text.trim();
    let unsigned = number.trim_start_matches(['-', '+']);
    let sign = &number[..number.len() - unsigned.len()];
    let (mantissa, exponent) = unsigned.split_at(unsigned.find(['e', 'E']).unwrap_or(unsigned.len()));
    match mantissa.split_once(',') {
        Some((whole, fraction))
            if sign.len() <= 1 && is_digits(fraction) && is_whole(whole) && is_exponent(exponent) =>
        {
            Cow::Owned(format!("{sign}{}.{fraction}{exponent}", whole.replace(SEPARATORS, "")))
        }
        _ => Cow::Borrowed(text),
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Digits, or one to three and then groups of three, all with the same separator.
fn is_whole(text: &str) -> bool {
    let Some(separator) = text.chars().find(|c| SEPARATORS.contains(c)) else { return is_digits(text) };
    let mut groups = text.split(separator);
    groups.next().is_some_and(|first| is_digits(first) && first.len() <= 3)
        && groups.all(|group| is_digits(group) && group.len() == 3)
}

/// Nothing, or `e` and a whole number.
fn is_exponent(text: &str) -> bool {
    text.is_empty() || is_digits(text[1..].trim_start_matches(['-', '+']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_get_a_point() {
        for (text, expected) in [
            ("3,14", "3.14"),
            ("-0,5", "-0.5"),
            (" 12,30 ", "12.30"),
            ("1,5E-03", "1.5E-03"),
            ("1.234,56", "1234.56"),
            ("1\u{202f}234\u{202f}567,8", "1234567.8"),
            ("1'234,5", "1234.5"),
        ] {
            assert_eq!(with_point(text), expected);
        }
    }

    #[test]
    fn other_text_stays() {
        for text in [
            "",
            "12",
            "a,b",
            "1,2,3",
            ",5",
            "1,",
            "24.12.2025",
            "12.34,5",
            "1.234 567,8",
            "--1,5",
            "1,5e",
            "1,5x",
            "1 ,5",
        ] {
            assert_eq!(with_point(text), text);
        }
    }
}
