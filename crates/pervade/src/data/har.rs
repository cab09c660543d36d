//! UCI HAR (Anguita et al., ESANN 2013), the paper's "HHAR": the folder as unpacked from the archive.
//!
//! `train/X_train.txt` and `test/X_test.txt` hold numbers separated by spaces, `y_train.txt` and `y_test.txt` one
//! activity per line, `features.txt` and `activity_labels.txt` the names.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::bytes::{self, Source};
use super::dataset::{Dataset, Values};
use super::folder::{companion, find, wants_y};
use super::input_file;
use super::labels::Labels;
use super::options::{ReadOptions, Table};
use super::text;
use crate::{Error, Result};

/// Files of rows and of labels, the training part first.
const PARTS: [(&str, &str); 2] =
    [("train/X_train.txt", "train/y_train.txt"), ("test/X_test.txt", "test/y_test.txt")];
const N_ACTIVITIES: u32 = 6;
const WHOLE: &str = "the folder `UCI HAR Dataset` has train/X_train.txt, train/y_train.txt, test/X_test.txt and \
                     test/y_test.txt; a single file of rows can be given by itself";

/// Whether a folder has rows of UCI HAR, complete or not.
pub(super) fn is_folder(folder: &Path) -> bool {
    PARTS.iter().any(|(rows, _)| find(folder, rows).is_some())
}

/// Reads the training rows and then the test rows; the activities are offered as `y`.
pub(super) fn read_folder(folder: &Path, options: &ReadOptions) -> Result<Table> {
    let location = folder.display().to_string();
    let wanted = wants_y(options, &location)?;
    let activities = if wanted { Some(Activities::read(folder)?) } else { None };
    let mut rows = Stacked::default();
    let mut words = Vec::new();
    for (row_file, label_file) in PARTS {
        let n_before = rows.n_rows;
        rows.append(&companion(folder, row_file, WHOLE)?)?;
        if let Some(activities) = &activities {
            let path = companion(folder, label_file, WHOLE)?;
            let part = activities.of_rows(&path)?;
            if part.len() != rows.n_rows - n_before {
                let problem = format!(
                    "there are {} labels for the {} rows of `{row_file}`",
                    part.len(),
                    rows.n_rows - n_before
                );
                return Err(
                    Error::data(path.display(), problem).with_hint("the two files do not belong together")
                );
            }
            words.extend(part);
        }
    }
    let names = column_names(folder, rows.n_columns)?;
    let values = Values::F32(rows.values.into());
    let data = Dataset::named(rows.n_rows, rows.n_columns, values, location.clone(), names)?;
    let labels = if wanted { Some(Labels::from_text(&words, &location)?) } else { None };
    Ok(Table::new(data, labels))
}

/// The rows of the files read so far.
#[derive(Default)]
struct Stacked {
    values: Vec<f32>,
    n_rows: usize,
    n_columns: usize,
    first: PathBuf,
}

impl Stacked {
    fn append(&mut self, path: &Path) -> Result<()> {
        let location = path.display().to_string();
        let part = input_file::parse(path, |bytes, location| {
            let unpacked = if bytes::is_gzip(bytes) {
                Cow::Owned(Source::of_bytes(bytes, location).rest()?)
            } else {
                Cow::Borrowed(bytes)
            };
            Ok(text::read_numbers(&unpacked, location)?.data)
        })?;
        if let Some(names) = part.column_names() {
            let first = names.iter().find(|name| name.parse::<f32>().is_err());
            let word: String = first.map_or("", |name| name).chars().take(40).collect();
            return Err(Error::data(location, format!("line 1 has `{word}`, which is not a number"))
                .with_hint(
                    "the rows of UCI HAR have no header; the names of their columns are in features.txt",
                ));
        }
        if self.n_rows == 0 {
            self.first = path.to_path_buf();
            self.n_columns = part.n_columns();
        }
        if part.n_columns() != self.n_columns {
            let problem = format!(
                "the rows have {} columns, those of `{}` have {}",
                part.n_columns(),
                self.first.display(),
                self.n_columns
            );
            return Err(Error::data(location, problem).with_hint("both files need the same columns"));
        }
        self.n_rows += part.n_rows();
        if let Values::F32(values) = part.values() {
            self.values.extend_from_slice(values);
        }
        Ok(())
    }
}

/// The names of the numbers in the label files.
struct Activities {
    names: HashMap<u32, String>,
    known: String,
}

impl Activities {
    /// Reads lines of number and name; without the file, numbers serve as names.
    fn read(folder: &Path) -> Result<Self> {
        let Some(path) = find(folder, "activity_labels.txt") else {
            let names = (1..=N_ACTIVITIES).map(|n| (n, n.to_string())).collect();
            return Ok(Self { names, known: format!("must be 1 to {N_ACTIVITIES}") });
        };
        let mut names = HashMap::new();
        for (number, name) in numbered_names(&path)? {
            if names.insert(number, name).is_some() {
                return Err(Error::data(path.display(), format!("activity {number} is named twice")));
            }
        }
        let known = format!("which is not one of the {} activities in activity_labels.txt", names.len());
        Ok(Self { names, known })
    }

    /// The names of the activities in a file with one number per line.
    fn of_rows(&self, path: &Path) -> Result<Vec<&str>> {
        let mut found = Vec::new();
        each_line(path, |location, line_number, line| {
            let word = String::from_utf8_lossy(line);
            let word = word.trim();
            if word.is_empty() {
                return Ok(());
            }
            let name = word.parse().ok().and_then(|number: u32| self.names.get(&number));
            let name = name.ok_or_else(|| {
                let word: String = word.chars().take(40).collect();
                Error::data(location, format!("line {line_number}: the label is `{word}`, {}", self.known))
                    .with_hint("the file is damaged, or is not one of UCI HAR's")
            })?;
            found.push(name.as_str());
            Ok(())
        })?;
        Ok(found)
    }
}

/// The names in `features.txt`, if it exists. Some occur three times (its authors forgot to add the axis), so later
/// ones get their number appended.
fn column_names(folder: &Path, n_columns: usize) -> Result<Option<Vec<String>>> {
    let Some(path) = find(folder, "features.txt") else { return Ok(None) };
    let numbered = numbered_names(&path)?;
    if numbered.len() != n_columns {
        return Err(Error::data(
            path.display(),
            format!("there are names for {} columns, the rows have {n_columns}", numbered.len()),
        )
        .with_hint("remove the file to number the columns instead"));
    }
    let mut seen = HashSet::new();
    let unique = |(number, name): (u32, String)| {
        if seen.insert(name.clone()) { name } else { format!("{name} ({number})") }
    };
    Ok(Some(numbered.into_iter().map(unique).collect()))
}

/// Calls `each` with the file name, the number and the bytes of every line.
fn each_line(path: &Path, mut each: impl FnMut(&str, usize, &[u8]) -> Result<()>) -> Result<()> {
    input_file::parse(path, |bytes, location| {
        Source::of_bytes(bytes, location).each_line(|number, line| each(location, number, line))
    })
}

/// The lines `NUMBER NAME` of a file.
fn numbered_names(path: &Path) -> Result<Vec<(u32, String)>> {
    let mut found = Vec::new();
    each_line(path, |location, line_number, line| {
        let text = String::from_utf8_lossy(line);
        let text = text.trim();
        if text.is_empty() {
            return Ok(());
        }
        let parts = text.split_once(char::is_whitespace);
        let numbered = parts.and_then(|(number, name)| Some((number.parse().ok()?, name.trim().to_string())));
        found.push(numbered.ok_or_else(|| {
            let text: String = text.chars().take(40).collect();
            Error::data(location, format!("line {line_number}: `{text}` is not a number and a name"))
        })?);
        Ok(())
    })?;
    Ok(found)
}
