//! Text tables: CSV, TSV and similar, with or without a header.

use std::borrow::Cow;
use std::io::{self, Read};

use csv::ByteRecord;

use super::decimal_comma::with_point;
use super::encoding::to_utf8;
use super::labels::Labels;
use super::options::{LabelSource, ReadOptions, Table, not_offered};
use super::parts::column_order;
use super::schema::Missing;
use super::text_table;
use crate::memory::{Need, product, require};
use crate::{Error, Hint, Result};

/// Bytes per field of the first line while it is inspected: two strings, and two offsets where the field ends.
const COLUMN_BYTES: usize = 2 * (size_of::<String>() + 32) + 2 * size_of::<usize>();

pub(super) const FEWER: &str =
    "give fewer rows or columns, or write the table as .npy, which is read in place";

/// Reads a table; one of its columns may hold the labels.
///
/// Columns are given types; numbers that share one are stored in single precision.
pub(super) fn read(bytes: &[u8], location: &str, options: &ReadOptions) -> Result<Table> {
    read_parts(&[(bytes, location)], location, options)
}

/// Reads texts with the same columns, each with its name for messages, as one table. There must be at least one.
pub(super) fn read_parts(parts: &[(&[u8], &str)], location: &str, options: &ReadOptions) -> Result<Table> {
    let (bytes, first) = parts[0];
    let layout = Layout::of(bytes, first, options)?;
    let orders = parts.iter().map(|(bytes, part)| layout.order_of(bytes, part, first, options));
    let orders = orders.collect::<Result<Vec<_>>>()?;
    let layout = Layout { location: location.to_string(), ..layout };
    text_table::read(&layout, options, || {
        let mut all = Vec::with_capacity(parts.len());
        for (&(bytes, part), order) in parts.iter().zip(&orders) {
            let mut lines = lines_after_header(bytes, part, &layout)?;
            lines.order.clone_from(order);
            all.push(lines);
        }
        Ok(all)
    })
}

/// Reads numbers, all of which must be finite; no column has a type.
pub(super) fn read_numbers(bytes: &[u8], location: &str) -> Result<Table> {
    read(bytes, location, &ReadOptions::default().with(|o| o.plain = Some(Vec::new())))
}

fn lines_after_header<'a>(bytes: &'a [u8], location: &'a str, layout: &Layout) -> Result<Lines<'a>> {
    let mut lines = Lines::new(bytes, location).with_decimal_comma(layout.decimal_comma);
    if layout.has_header {
        lines.next()?;
    }
    Ok(lines)
}

/// The columns of a text table.
#[derive(Clone)]
pub(super) struct Layout {
    pub(super) location: String,
    /// Number of fields in every line.
    pub(super) n_fields: usize,
    pub(super) has_header: bool,
    /// Whether numbers have a decimal comma.
    pub(super) decimal_comma: bool,
    /// Whether the first line is UTF-8.
    pub(super) is_utf8: bool,
    /// Names of the fields, if there is a header.
    pub(super) names: Option<Vec<String>>,
    /// The field of the labels.
    pub(super) label: Option<usize>,
}

impl Layout {
    pub(super) fn of(bytes: &[u8], location: &str, options: &ReadOptions) -> Result<Self> {
        let n_fields = Lines::count_first(bytes);
        let need = Need::of("", product(&[n_fields, COLUMN_BYTES]));
        require(&format!("the header of `{location}` with {n_fields} columns"), &need, FEWER)?;
        let mut lines = Lines::new(bytes, location);
        let first = lines.next()?.map(|l| l.words()).unwrap_or_default();
        let is_utf8 = lines.is_utf8;
        let has_header = has_header(bytes, location, options)?;
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
        let names = has_header.then(|| named(&first));
        Ok(Self {
            location: location.to_string(),
            n_fields: first.len(),
            has_header,
            decimal_comma: options.decimal_comma,
            is_utf8,
            names,
            label,
        })
    }

    /// The position of each column in another part, if they are in another order there; an error if it has others.
    fn order_of(
        &self,
        bytes: &[u8],
        location: &str,
        first: &str,
        options: &ReadOptions,
    ) -> Result<Option<Vec<usize>>> {
        let other = Layout::of(bytes, location, options)?;
        match (&self.names, &other.names) {
            (Some(wanted), Some(given)) => {
                let order = column_order(wanted, given, location, first)?;
                Ok((!order.is_sorted()).then_some(order))
            }
            (None, None) if self.n_fields == other.n_fields => Ok(None),
            (None, None) => {
                let problem = format!(
                    "there are {} columns, but {} in the first part, `{first}`",
                    other.n_fields, self.n_fields
                );
                Err(Error::data(location, problem).with_hint("all parts of a table need the same columns"))
            }
            (wanted, _) => {
                let (here, there) = if wanted.is_some() { ("no", "one") } else { ("a", "none") };
                let problem =
                    format!("there is {here} line of names, but {there} in the first part, `{first}`");
                Err(Error::data(location, problem).with_hint("give all parts a line of names, or none"))
            }
        }
    }
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

/// The names of the columns. Those without one are called as pandas does, but for the first, which may hold row numbers.
fn named(header: &[String]) -> Vec<String> {
    let name = |(j, name): (usize, &String)| match name.as_str() {
        "" if j > 0 => format!("Unnamed: {j}"),
        _ => name.clone(),
    };
    header.iter().enumerate().map(name).collect()
}

/// Whether the first line names the columns: one of its fields is neither a number nor missing, and it does not look like
/// the line below it.
fn has_header(bytes: &[u8], location: &str, options: &ReadOptions) -> Result<bool> {
    let missing = Missing::new(&options.missing);
    let mut lines = Lines::new(bytes, location).with_decimal_comma(options.decimal_comma);
    let is_word = |field: &String| !missing.has_word(field) && number(field.as_bytes()).is_none();
    let first = lines.next()?.map(|l| l.words()).unwrap_or_default();
    let second = lines.next()?.map(|l| l.words()).unwrap_or_default();
    let only_last = first.iter().position(is_word) == first.len().checked_sub(1);
    if options.labels == Some(LabelSource::LastColumn) && only_last {
        // A word in the label column alone may be a label: it is one if the next line has a word there too.
        return Ok(!second.last().is_some_and(is_word));
    }
    let is_named = |options: &ReadOptions| {
        matches!(options.labels, Some(LabelSource::Column(_)))
            || !options.types.is_empty()
            || !options.keep.is_empty()
    };
    Ok(first.iter().any(is_word) && (is_named(options) || !is_data(&first, &second, is_word)))
}

/// Whether the first line of a table with words is a row like the second one: words are in the same columns, and the
/// numbers between them are no names, such as years, which would ascend.
fn is_data(first: &[String], second: &[String], is_word: impl Fn(&String) -> bool) -> bool {
    let numbers: Vec<f32> = first.iter().filter_map(|field| number(field.as_bytes())).collect();
    let is_like =
        first.len() == second.len() && first.iter().zip(second).all(|(a, b)| is_word(a) == is_word(b));
    is_like && numbers.len() > 1 && !numbers.windows(2).all(|pair| pair[0] < pair[1])
}

fn number(field: &[u8]) -> Option<f32> {
    std::str::from_utf8(field).ok()?.trim().parse().ok()
}

fn brief(names: &[String]) -> String {
    let shown = names.iter().take(20).map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
    if names.len() > 20 { format!("{shown}, ... ({} in all)", names.len()) } else { shown }
}

/// The lines of a text, split into fields.
pub(super) struct Lines<'a> {
    records: Records<'a>,
    record: ByteRecord,
    location: &'a str,
    skip_empty: bool,
    decimal_comma: bool,
    /// Whether all lines so far are UTF-8.
    pub(super) is_utf8: bool,
    /// Where each column is, if they are in another order than in the first part.
    order: Option<Vec<usize>>,
}

/// Where lines come from.
enum Records<'a> {
    Text(Box<LineReader<&'a [u8]>>),
    Read(std::slice::Iter<'a, ByteRecord>),
}

pub(super) struct Line<'a> {
    /// Its number, counted from one.
    pub(super) number: u64,
    /// The file, for messages.
    pub(super) location: &'a str,
    record: &'a ByteRecord,
    skip_empty: bool,
}

/// How the lines of a text are split.
#[derive(Clone, Copy)]
pub(super) struct Splitter {
    separator: u8,
    end: LineEnd,
}

/// What ends the lines of a text.
#[derive(Clone, Copy, PartialEq)]
enum LineEnd {
    /// As on Linux and macOS.
    Lf,
    /// As on Windows.
    CrLf,
    /// As on Macs before 2001.
    Cr,
}

impl Splitter {
    /// For a text that starts with these bytes.
    pub(super) fn of(head: &[u8]) -> Self {
        let head = without_mark(head);
        let end = match head.iter().position(|b| matches!(b, b'\r' | b'\n')) {
            Some(at) if head[at] == b'\r' && head.get(at + 1) == Some(&b'\n') => LineEnd::CrLf,
            Some(at) if head[at] == b'\r' => LineEnd::Cr,
            _ => LineEnd::Lf,
        };
        Self { separator: separator(head), end }
    }

    /// Whether empty fields are skipped: columns that are aligned with spaces have runs of them.
    pub(super) fn skips_empty(self) -> bool {
        self.separator == b' '
    }

    /// The lines of a text without the mark.
    pub(super) fn lines<R: Read>(self, text: R) -> LineReader<R> {
        let mut builder = csv::ReaderBuilder::new();
        builder.has_headers(false).flexible(true).comment(Some(b'#')).delimiter(self.separator);
        // The last line may have no end: see `LineReader::next`.
        let end: &[u8] = if self.end == LineEnd::Lf { b"\n" } else { b"" };
        LineReader { csv: builder.from_reader(text.chain(end)), end: self.end }
    }
}

/// Reads lines as fields.
pub(super) struct LineReader<R> {
    csv: csv::Reader<io::Chain<R, &'static [u8]>>,
    end: LineEnd,
}

impl<R: Read> LineReader<R> {
    /// Reads the next line; false at the end.
    ///
    /// The record's position has its line, counted from one. (That of `csv` would be the line of the comments and empty lines before it, and
    /// in a text from Windows the line before.)
    pub(super) fn next(&mut self, record: &mut ByteRecord) -> csv::Result<bool> {
        let more = self.csv.read_byte_record(record)?;
        if let Some(mut position) = record.position().cloned().filter(|_| more) {
            let n_inside: u64 = record.as_slice().iter().map(|&b| u64::from(b == b'\n')).sum();
            // `csv` counts line feeds, those that it has read.
            let line = match self.end {
                LineEnd::Lf => self.csv.position().line().saturating_sub(n_inside + 1),
                LineEnd::CrLf => self.csv.position().line().saturating_sub(n_inside),
                LineEnd::Cr => position.record() + 1,
            };
            // Damaged texts may have other ends than their first line.
            position.set_line(line.max(1));
            record.set_position(Some(position));
        }
        Ok(more)
    }
}

/// Without the mark with which some programs start a text in UTF-8.
pub(super) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

impl<'a> Lines<'a> {
    pub(super) fn new(bytes: &'a [u8], location: &'a str) -> Self {
        let splitter = Splitter::of(bytes);
        let records = Records::Text(Box::new(splitter.lines(without_mark(bytes))));
        Self::of(records, location, splitter.skips_empty())
    }

    /// Lines that were already split.
    pub(super) fn of_records(records: &'a [ByteRecord], location: &'a str, skip_empty: bool) -> Self {
        Self::of(Records::Read(records.iter()), location, skip_empty)
    }

    fn of(records: Records<'a>, location: &'a str, skip_empty: bool) -> Self {
        Self {
            records,
            record: ByteRecord::new(),
            location,
            skip_empty,
            decimal_comma: false,
            is_utf8: true,
            order: None,
        }
    }

    /// Whether numbers have a decimal comma: they are given with a point.
    pub(super) fn with_decimal_comma(mut self, decimal_comma: bool) -> Self {
        self.decimal_comma = decimal_comma;
        self
    }

    /// Number of fields in the first non-empty line, ignoring quotes.
    fn count_first(bytes: &[u8]) -> usize {
        let separator = separator(bytes);
        first_line(bytes).split(|&b| b == separator).count()
    }

    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>> {
        let location = self.location;
        let more = match &mut self.records {
            Records::Text(lines) => {
                lines.next(&mut self.record).map_err(|e| Error::data(location, e.to_string()))?
            }
            Records::Read(records) => match records.next() {
                Some(record) => {
                    self.record.clone_from(record);
                    true
                }
                None => false,
            },
        };
        if let Some(order) = &self.order {
            reorder(&mut self.record, order, self.skip_empty);
        }
        let number = self.record.position().map_or(0, csv::Position::line);
        if more && !self.record.as_slice().is_ascii() && to_utf8(&mut self.record) {
            self.is_utf8 = false;
        }
        if more && self.decimal_comma {
            with_points(&mut self.record, number, location)?;
        }
        Ok(more.then_some(Line { number, location, record: &self.record, skip_empty: self.skip_empty }))
    }
}

/// Writes the numbers of a line with a decimal point. A number that has one already is an error: with a comma elsewhere, `1.234` can be
/// either of two numbers.
fn with_points(record: &mut ByteRecord, number: u64, location: &str) -> Result<()> {
    if !record.iter().any(|field| field.contains(&b',') || field.contains(&b'.')) {
        return Ok(());
    }
    let mut changed = ByteRecord::with_capacity(record.as_slice().len(), record.len());
    for field in &*record {
        let text = String::from_utf8_lossy(field);
        if text.contains('.') && text.trim().parse::<f64>().is_ok() {
            let problem =
                format!("line {number} has `{}`, which has a decimal point and no comma", text.trim());
            let hint = Hint::new("").setting("decimal_comma");
            let hint = hint.text(" is for tables in which all numbers have one, such as 3,14 or 1.234,56");
            return Err(Error::data(location, problem).with_hint(hint));
        }
        match with_point(&text) {
            Cow::Borrowed(_) => changed.push_field(field),
            Cow::Owned(number) => changed.push_field(number.as_bytes()),
        }
    }
    changed.set_position(record.position().cloned());
    *record = changed;
    Ok(())
}

/// Puts the fields into another order; a line with too few or too many fields stays as it is.
fn reorder(record: &mut ByteRecord, order: &[usize], skip_empty: bool) {
    let fields: Vec<&[u8]> = record.iter().filter(|field| !skip_empty || !field.is_empty()).collect();
    if fields.len() == order.len() {
        let mut ordered: ByteRecord = order.iter().map(|&at| fields[at]).collect();
        ordered.set_position(record.position().cloned());
        *record = ordered;
    }
}

impl Line<'_> {
    pub(super) fn fields(&self) -> impl Iterator<Item = &[u8]> {
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
