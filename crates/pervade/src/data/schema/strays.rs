//! Errors about words among numbers or dates, and about numbers in forms that are not read.

use std::borrow::Cow;

use super::raw::Coded;
use crate::data::decimal_comma::with_point;
use crate::{Error, Hint};

/// The largest number of words, and of rows for each, in a message.
const MAX_SHOWN: usize = 3;

/// A word in a message: cut if it is long.
pub(in crate::data) fn word_in_message(word: &str) -> String {
    const LONGEST: usize = 40;
    let mut shown: String = word.chars().take(LONGEST).collect();
    if word.chars().count() > LONGEST {
        shown.push_str("..");
    }
    format!("`{shown}`")
}

/// Rows in a message, counted from one.
pub(super) fn rows_in_message(rows: &[usize], n: usize) -> String {
    let shown: Vec<String> = rows.iter().take(MAX_SHOWN).map(|row| (row + 1).to_string()).collect();
    match (shown.as_slice(), n - shown.len()) {
        ([only], 0) => format!("row {only}"),
        ([first @ .., last], 0) => format!("rows {} and {last}", first.join(", ")),
        (shown, more) => format!("rows {} and {more} more", shown.join(", ")),
    }
}

/// The error for a column of numbers or dates (`what`) with words among them: `is_stray` by code. The cells start at row
/// `first_row` of the table.
pub(super) fn stray_words(
    source: &str,
    name: &str,
    what: &str,
    coded: &Coded,
    first_row: usize,
    is_stray: impl Fn(usize) -> bool,
) -> Error {
    let counts = coded.counts();
    let mut strays: Vec<usize> = (0..counts.len()).filter(|&code| is_stray(code)).collect();
    let n_strays: usize = strays.iter().map(|&code| counts[code]).sum();
    let n_cells: usize = counts.iter().sum();
    strays.sort_by_key(|&code| std::cmp::Reverse(counts[code]));
    let shown = strays.iter().take(MAX_SHOWN).map(|&code| {
        let rows: Vec<usize> =
            coded.rows_with(code, MAX_SHOWN).into_iter().map(|row| first_row + row).collect();
        let rows = rows_in_message(&rows, counts[code]);
        format!("{} in {rows}", word_in_message(&coded.words[code]))
    });
    let mut shown = shown.collect::<Vec<_>>().join(", ");
    if strays.len() > MAX_SHOWN {
        shown.push_str(", ...");
    }
    let are = if n_strays == 1 { "is a word" } else { "are words" };
    let problem =
        format!("column `{name}` holds {what}, but {n_strays} of its {n_cells} cells {are}: {shown}");
    let missing: Vec<&str> = strays.iter().take(MAX_SHOWN).map(|&code| coded.words[code].as_str()).collect();
    let hint = Hint::new("correct those cells").also("").setting_to("missing", missing.join(",")).text(
        if strays.len() > MAX_SHOWN {
            ", and so on, takes them as missing"
        } else {
            " takes them as missing"
        },
    );
    let hint = hint.also("").setting_to("type", format!("{name}=category"));
    let hint = hint.text(" takes the whole column as categories");
    let hint = hint.also("").setting_to("keep_columns", name).text(" leaves it out");
    Error::data(source, problem).with_hint(hint)
}

/// A way to write numbers that is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `1,234,567`.
    Thousands,
    /// `3,14`.
    DecimalComma,
}

/// The style of a number that is not read; `None` for other words.
fn style(word: &str) -> Option<Style> {
    let unsigned = word.trim_start_matches(['-', '+']);
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = unsigned.split_once('.').map_or((unsigned, None), |(a, b)| (a, Some(b)));
    let groups: Vec<&str> = whole.split([',', '\'', '\u{a0}', '\u{202f}', ' ']).collect();
    let [first, rest @ ..] = groups.as_slice() else { return None };
    let is_grouped = !rest.is_empty() && rest.iter().all(|group| is_digits(group) && group.len() == 3);
    if is_digits(first) && first.len() <= 3 && is_grouped && fraction.is_none_or(is_digits) {
        return Some(Style::Thousands);
    }
    matches!(with_point(word), Cow::Owned(_)).then_some(Style::DecimalComma)
}

/// The error for a column of numbers with thousands separators or decimal commas; `None` for other words.
///
/// Words that are plain numbers may be among them.
pub(super) fn unreadable_numbers(
    source: &str,
    name: &str,
    coded: &Coded,
    first_row: usize,
    is_number: impl Fn(usize) -> bool,
) -> Option<Error> {
    let styles: Vec<Option<Style>> = coded.words.iter().map(|word| style(word)).collect();
    let known = styles.iter().enumerate().all(|(code, style)| style.is_some() || is_number(code));
    let has = |wanted: Style| styles.iter().position(|style| *style == Some(wanted));
    if !known {
        return None;
    }
    // `1,234` has both readings: other cells decide.
    let (code, what, instead) = match (has(Style::DecimalComma), has(Style::Thousands)) {
        (Some(code), _) => (code, "a decimal comma", "a decimal point, as in 3.14"),
        (None, Some(code)) => {
            (code, "thousands separators", "only digits and a decimal point, as in 1234567.8")
        }
        (None, None) => return None,
    };
    let rows: Vec<usize> = coded.rows_with(code, 1).iter().map(|row| first_row + row).collect();
    let row = rows_in_message(&rows, 1);
    let word = word_in_message(&coded.words[code]);
    let problem = format!("column `{name}` has numbers with {what}, such as {word} in {row}");
    let hint = if has(Style::DecimalComma).is_some() {
        Hint::new("").setting("decimal_comma").text(" reads such numbers")
    } else {
        Hint::default()
    };
    let hint = hint.also(format!(
        "write its numbers with {instead}: in a spreadsheet, choose the number format \"General\" and an English export"
    ));
    let hint = hint.also("").setting_to("keep_columns", name).text(" leaves the column out");
    Some(Error::data(source, problem).with_hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_of_numbers() {
        for word in ["1,234", "12,345,678", "-1,234.5", "1 234", "1'234'567"] {
            assert_eq!(style(word), Some(Style::Thousands), "{word}");
        }
        for word in ["3,14", "-0,5", "1.234,56", "12,3456", "1,5E-03"] {
            assert_eq!(style(word), Some(Style::DecimalComma), "{word}");
        }
        for word in ["", "1,", ",5", "a,b", "1,2,3", "12", "1.5", "12,34,567", "x"] {
            assert_eq!(style(word), None, "{word}");
        }
    }

    #[test]
    fn rows_read_well() {
        assert_eq!(rows_in_message(&[4], 1), "row 5");
        assert_eq!(rows_in_message(&[4, 6], 2), "rows 5 and 7");
        assert_eq!(rows_in_message(&[4, 6, 9], 12), "rows 5, 7, 10 and 9 more");
    }
}
