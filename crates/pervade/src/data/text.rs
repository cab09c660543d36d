//! Text tables: CSV, TSV and similar, with or without a header.

use csv::ByteRecord;

use super::dataset::{Dataset, Values, column_in_words};
use super::labels::Labels;
use super::options::{LabelSource, ReadOptions, Table, not_offered};
use crate::memory::{Need, grow, product, require};
use crate::{Error, Hint, Result};

/// Bytes per field of the first line while it is inspected: two strings, and two offsets where the field ends.
const COLUMN_BYTES: usize = 2 * (size_of::<String>() + 32) + 2 * size_of::<usize>();

const FEWER: &str = "give fewer rows or columns, or write the table as .npy, which is read in place";

/// Reads a table; one of its columns may hold the labels. Numbers are stored in single precision.
pub(super) fn read(bytes: &[u8], location: &str, options: &ReadOptions) -> Result<Table> {
    let n_fields = Lines::count_first(bytes);
    let need = Need::of("", product(&[n_fields, COLUMN_BYTES]));
    require(&format!("the header of `{location}` with {n_fields} columns"), &need, FEWER)?;
    let first = Lines::new(bytes, location).next()?.map(|l| l.words()).unwrap_or_default();
    let has_header = has_header(bytes, location, options.labels.as_ref())?;
    let label = match &options.labels {
        None => None,
        Some(LabelSource::LastColumn) => first.len().checked_sub(1),
        Some(LabelSource::Column(name)) if has_header && first.contains(name) => {
            first.iter().position(|n| n == name)
        }
        Some(wanted) => {
            let offered = if has_header {
                format!("the columns are {}", brief(&first))
            } else {
                "the file has no header that names its columns".into()
            };
            return Err(not_offered(location, wanted, &offered));
        }
    };
    let n_fields = first.len();
    let mut names = has_header.then_some(first);
    let mut values: Vec<f32> = Vec::new();
    let mut label_words: Vec<String> = Vec::new();
    let mut n_rows = 0;
    let mut lines = Lines::new(bytes, location);
    if has_header {
        lines.next()?;
    }
    while let Some(line) = lines.next()? {
        let mut n_found = 0;
        grow(&mut values, n_fields, &format_args!("the table in `{location}`"), FEWER)?;
        for (j, field) in line.fields().enumerate() {
            n_found += 1;
            if label == Some(j) {
                label_words.push(String::from_utf8_lossy(field).trim().to_string());
            } else if j < n_fields {
                let column = || column_in_words(names.as_deref(), j);
                let finite = number(field).filter(|x| x.is_finite());
                values.push(finite.ok_or_else(|| not_a_number(field, line.number, &column(), location))?);
            }
        }
        if n_found != n_fields {
            return Err(ragged(line.number, n_found, n_fields, location));
        }
        n_rows += 1;
    }
    if let (Some(names), Some(label)) = (&mut names, label) {
        names.remove(label);
    }
    let n_columns = n_fields - usize::from(label.is_some());
    let data = Dataset::named(n_rows, n_columns, Values::F32(values.into()), location.into(), names)?;
    let labels = label.map(|_| Labels::from_text(&label_words, location)).transpose()?;
    Ok(Table::new(data, labels))
}

/// Reads a file of one column, with or without a header, as labels.
pub(super) fn read_labels(bytes: &[u8], location: &str) -> Result<Labels> {
    let mut words: Vec<String> = Vec::new();
    let mut lines = Lines::new(bytes, location);
    while let Some(line) = lines.next()? {
        let mut fields = line.words();
        if fields.len() != 1 {
            let problem =
                format!("line {} has {} fields, a file of labels has one", line.number, fields.len());
            let hint = Hint::new("labels in a table are selected by ").setting_to("labels", "column:NAME");
            return Err(Error::data(location, problem).with_hint(hint.text(" without a file")));
        }
        words.append(&mut fields);
    }
    let is_number = |word: &String| number(word.as_bytes()).is_some();
    // Numbers below a word: the word is a header. Among words only the usual headers can be recognised.
    let usual = |word: &String| ["label", "labels", "class", "cluster", "y"].contains(&word.as_str());
    let numbers_follow = words.len() > 1 && words[1..].iter().all(is_number);
    if words.first().is_some_and(|first| !is_number(first) && (numbers_follow || usual(first))) {
        words.remove(0);
    }
    Labels::from_text(&words, location)
}

/// Whether the first line names the columns: one of its fields is neither a number nor empty.
fn has_header(bytes: &[u8], location: &str, labels: Option<&LabelSource>) -> Result<bool> {
    let mut lines = Lines::new(bytes, location);
    let is_word = |field: &String| !field.is_empty() && number(field.as_bytes()).is_none();
    let first = lines.next()?.map(|l| l.words()).unwrap_or_default();
    let only_last = first.iter().position(is_word) == first.len().checked_sub(1);
    if labels == Some(&LabelSource::LastColumn) && only_last {
        // A word in the label column alone may be a label: it is one if the next line has a word there too.
        let second = lines.next()?.map(|l| l.words()).unwrap_or_default();
        return Ok(!second.last().is_some_and(is_word));
    }
    Ok(first.iter().any(is_word))
}

fn number(field: &[u8]) -> Option<f32> {
    std::str::from_utf8(field).ok()?.trim().parse().ok()
}

fn brief(names: &[String]) -> String {
    let shown = names.iter().take(20).map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
    if names.len() > 20 { format!("{shown}, ... ({} in all)", names.len()) } else { shown }
}

fn not_a_number(field: &[u8], line: u64, column: &str, location: &str) -> Error {
    let word: String = String::from_utf8_lossy(field).chars().take(40).collect();
    let what =
        if word.trim().is_empty() { "is empty".into() } else { format!("is `{word}`, not a finite number") };
    Error::data(location, format!("line {line}, column {column} {what}")).with_hint(
        Hint::new("fill in or remove such rows")
            .also("a column of labels is selected by ")
            .setting_to("labels", "column:NAME"),
    )
}

fn ragged(line: u64, n_fields: usize, expected: usize, location: &str) -> Error {
    Error::data(
        location,
        format!("line {line} has {n_fields} fields, expected {expected} as in the first line"),
    )
    .with_hint("every line needs the same number of fields")
}

/// The lines of a text, split into fields.
struct Lines<'a> {
    csv: csv::Reader<&'a [u8]>,
    record: ByteRecord,
    location: &'a str,
    skip_empty: bool,
}

struct Line<'a> {
    number: u64,
    record: &'a ByteRecord,
    skip_empty: bool,
}

impl<'a> Lines<'a> {
    fn new(bytes: &'a [u8], location: &'a str) -> Self {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let separator = separator(bytes);
        let csv = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .comment(Some(b'#'))
            .delimiter(separator)
            .from_reader(bytes);
        // Columns that are aligned with spaces have runs of them.
        Self { csv, record: ByteRecord::new(), location, skip_empty: separator == b' ' }
    }

    /// Number of fields in the first non-empty line, ignoring quotes.
    fn count_first(bytes: &[u8]) -> usize {
        let separator = separator(bytes);
        first_line(bytes).split(|&b| b == separator).count()
    }

    fn next(&mut self) -> Result<Option<Line<'_>>> {
        let more = self
            .csv
            .read_byte_record(&mut self.record)
            .map_err(|e| Error::data(self.location, e.to_string()))?;
        let number = self.record.position().map_or(0, csv::Position::line);
        Ok(more.then_some(Line { number, record: &self.record, skip_empty: self.skip_empty }))
    }
}

impl Line<'_> {
    fn fields(&self) -> impl Iterator<Item = &[u8]> {
        self.record.iter().filter(|field| !self.skip_empty || !field.is_empty())
    }

    fn words(&self) -> Vec<String> {
        self.fields().map(|f| String::from_utf8_lossy(f).trim().to_string()).collect()
    }
}

/// The first non-empty line.
fn first_line(bytes: &[u8]) -> &[u8] {
    let is_content = |line: &&[u8]| !line.starts_with(b"#") && !line.trim_ascii().is_empty();
    bytes.split(|&b| b == b'\n' || b == b'\r').find(is_content).unwrap_or(b"")
}

/// The separator of the first non-empty line: the first of tab, `;`, `,` found outside quotes, otherwise space.
fn separator(bytes: &[u8]) -> u8 {
    let line = first_line(bytes);
    let mut quoted = false;
    let mut seen = [false; 256];
    for &b in line.trim_ascii() {
        quoted ^= b == b'"';
        seen[b as usize] |= !quoted;
    }
    [b'\t', b';', b',', b' '].into_iter().find(|&b| seen[b as usize]).unwrap_or(b',')
}
