//! svmlight (libsvm): one line per row, `label index:value index:value ...`, sparse.

use super::dataset::{Dataset, Values};
use super::labels::Labels;
use super::options::{LabelSource, ReadOptions, Table, not_offered};
use super::sparse::{self, SparseParts};
use crate::memory::grow;
use crate::{Error, Result};

const FEWER: &str = "give fewer rows";

/// The name of the labels at the start of the lines.
pub(super) const LABELS: &str = "y";

/// Whether the first line with more than a label looks like this format.
pub(super) fn is_svmlight(head: &[u8]) -> bool {
    let mut lines = head.split_inclusive(|&b| b == b'\n');
    let Some(line) = lines.find(|line| content(line).count() > 1) else { return false };
    let mut words: Vec<&[u8]> = content(line).collect();
    if !line.ends_with(b"\n") && line.len() > 1024 {
        words.pop(); // the line continues, and this word may be cut
    }
    number::<f64>(words[0]).is_some() && words[1..].iter().all(|w| is_query(w) || entry(w).is_some())
}

/// Reads sparse rows; the labels are offered as `y`.
///
/// Indices count from 1 unless a 0 occurs.
pub(super) fn read(bytes: &[u8], location: &str, options: &ReadOptions) -> Result<Table> {
    let mut parts = SparseParts { starts: vec![0], indices: Vec::new(), values: Vec::new() };
    // Copied: the bytes may be mapped from a file, which can change after the check for UTF-8.
    let mut label_words: Vec<String> = Vec::new();
    for (line_number, line) in (1..).zip(bytes.split(|&b| b == b'\n')) {
        let mut words = content(line);
        let Some(label) = words.next() else { continue };
        let broken = |word: &[u8], what: &str| {
            let word: String = String::from_utf8_lossy(word).chars().take(40).collect();
            Error::data(location, format!("line {line_number}: `{word}` is not {what}"))
        };
        let label = String::from_utf8(label.to_vec()).map_err(|_| broken(label, "a label"))?;
        let what = format_args!("the table in `{location}`");
        if options.labels.is_some() {
            grow(&mut label_words, 1, &what, FEWER)?;
            label_words.push(label);
        }
        for word in words.filter(|word| !is_query(word)) {
            let (index, value) = entry(word).ok_or_else(|| broken(word, "`index:value`"))?;
            grow(&mut parts.indices, 1, &what, FEWER)?;
            grow(&mut parts.values, 1, &what, FEWER)?;
            parts.indices.push(index);
            parts.values.push(value);
        }
        grow(&mut parts.starts, 1, &what, FEWER)?;
        parts.starts.push(parts.indices.len());
    }
    let from_zero = parts.indices.contains(&0);
    if !from_zero {
        parts.indices.iter_mut().for_each(|index| *index -= 1);
    }
    let n_rows = parts.starts.len() - 1;
    let n_columns = parts.indices.iter().max().map_or(0, |&last| last as usize + 1);
    sparse::check_columns(n_columns, location)?;
    let csr = parts.into_csr(n_rows, n_columns, location)?;
    let labels = match &options.labels {
        None => None,
        Some(LabelSource::Named(name)) if name == LABELS => Some(Labels::from_text(&label_words, location)?),
        Some(wanted) => return Err(not_offered(location, wanted, "there is `y`")),
    };
    Ok(Table::new(Dataset::new(n_rows, n_columns, Values::Csr(csr), location)?, labels))
}

/// The words of a line before its comment.
fn content(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = line.iter().position(|&b| b == b'#').unwrap_or(line.len());
    line[..end].split(|b| b.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

/// `qid:7` groups rows for ranking and is ignored.
fn is_query(word: &[u8]) -> bool {
    word.starts_with(b"qid:")
}

/// `index:value`.
pub(super) fn entry(word: &[u8]) -> Option<(u32, f32)> {
    let colon = word.iter().position(|&b| b == b':')?;
    Some((number(&word[..colon])?, number(&word[colon + 1..])?))
}

fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}
