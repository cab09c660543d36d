//! Tables in parts: a folder of files, or the files that a pattern matches, are one table in the order of their names.

use std::path::{Path, PathBuf};

use super::bytes::FileBytes;
use super::dataset::{Array, Dataset, Values};
use super::folder::{self, sorted_files};
use super::input_file::InputFile;
use super::options::{ReadOptions, Table, no_arrays, no_text};
#[cfg(feature = "parquet")]
use super::parquet_file::ParquetFile;
use super::read::{extension, file_bytes, read_file};
use super::schema::listed;
use super::{parquet, text};
use crate::memory::{Need, product, require};
use crate::{Error, Result};

/// The format of the parts of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartKind {
    /// Parquet files.
    Parquet,
    /// NumPy arrays.
    Npy,
    /// CSV or TSV files.
    Text,
}

/// The parts of a table: files of one format, in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    kind: PartKind,
    files: Vec<PathBuf>,
    /// As the user named them.
    location: String,
}

impl PartKind {
    /// The kind of a file by the ending of its name, also before `.gz`.
    pub(super) fn of(path: &Path) -> Option<Self> {
        match extension(path).as_str() {
            "parquet" => Some(PartKind::Parquet),
            "npy" => Some(PartKind::Npy),
            "csv" | "tsv" => Some(PartKind::Text),
            _ => None,
        }
    }
}

impl Parts {
    /// The parts that a folder or a pattern such as `rows/part-*.parquet` stands for; `None` for a single file and for
    /// folders of other data. Files whose names begin with `.` or `_` are no parts.
    pub fn find(path: &Path) -> Result<Option<Self>> {
        if path.is_dir() {
            return folder::parts(path);
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if !name.contains(['*', '?']) || path.exists() {
            return Ok(None);
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let is_match = |file: &PathBuf| {
            let file = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            matches(name.as_bytes(), file.as_bytes())
        };
        let files: Vec<PathBuf> = sorted_files(folder)?.into_iter().filter(is_match).collect();
        if files.is_empty() {
            return Err(Error::data(path.display(), "no file has a name of this pattern")
                .with_hint("`*` stands for any letters, `?` for one; put the pattern in quotes"));
        }
        Self::new(files, path).map(Some)
    }

    /// Parts in this order, which must not be empty.
    pub(super) fn new(files: Vec<PathBuf>, path: &Path) -> Result<Self> {
        let location = path.display().to_string();
        let mut kind = None;
        for file in &files {
            let Some(this) = PartKind::of(file) else {
                return Err(Error::data(file.display(), "this file is no part of a table")
                    .with_hint("parts are .parquet, .npy, .csv or .tsv files; choose them by a pattern such as 'rows/*.parquet'"));
            };
            if kind.is_some_and(|kind| kind != this) {
                let names = [&files[0], file].map(|file| file.display().to_string());
                let problem = format!("the parts have different formats: {}", listed(&names, 2));
                return Err(Error::data(&location, problem)
                    .with_hint("choose those of one format by a pattern such as 'rows/*.parquet'"));
            }
            kind = Some(this);
        }
        let kind = kind.ok_or_else(|| Error::data(&location, "there are no parts"))?;
        Ok(Self { kind, files, location })
    }

    /// Their format.
    pub fn kind(&self) -> PartKind {
        self.kind
    }

    /// The folder or pattern, for messages.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// The files in order.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Reads all parts as one table.
    pub(super) fn read(&self, options: &ReadOptions) -> Result<Table> {
        if let Some(name) = &options.array {
            return Err(no_arrays(&self.location, name, "the parts hold one table"));
        }
        if options.decimal_comma && self.kind != PartKind::Text {
            return Err(no_text(&self.location));
        }
        let files = self.files.iter().map(|path| InputFile::open(path)).collect::<Result<Vec<_>>>()?;
        let table = match self.kind {
            PartKind::Npy => self.read_arrays(options),
            PartKind::Parquet => self.read_parquet(&files, options),
            PartKind::Text => self.read_text(&files, options),
        };
        files.iter().try_for_each(InputFile::check_unchanged)?;
        let table = table?;
        let is_array = self.kind == PartKind::Npy || options.plain.is_some();
        if is_array { table.with_column_options(options) } else { Ok(table) }
    }

    #[cfg(feature = "parquet")]
    fn read_parquet(&self, files: &[InputFile], options: &ReadOptions) -> Result<Table> {
        let mut opened: Vec<ParquetFile> = Vec::with_capacity(files.len());
        for file in files {
            let part = ParquetFile::open(file_bytes(file)?, file.location())?;
            let part = match opened.first() {
                Some(first) => part.like(first)?,
                None => part,
            };
            opened.push(part);
        }
        parquet::read_parts(&opened, &self.location, options)
    }

    #[cfg(not(feature = "parquet"))]
    fn read_parquet(&self, files: &[InputFile], options: &ReadOptions) -> Result<Table> {
        parquet::read(file_bytes(&files[0])?, &self.location, options)
    }

    fn read_text(&self, files: &[InputFile], options: &ReadOptions) -> Result<Table> {
        let bytes = files.iter().map(file_bytes).collect::<Result<Vec<FileBytes>>>()?;
        let parts: Vec<(&[u8], &str)> =
            bytes.iter().zip(files).map(|(bytes, file)| (bytes.as_ref(), file.location())).collect();
        text::read_parts(&parts, &self.location, options)
    }

    fn read_arrays(&self, options: &ReadOptions) -> Result<Table> {
        let inside = ReadOptions { labels: options.labels.clone(), ..ReadOptions::default() };
        let read = |path: &PathBuf| read_file(InputFile::open(path)?, path, &inside).map(|table| table.data);
        let parts = self.files.iter().map(read).collect::<Result<Vec<_>>>()?;
        check_widths(&parts)?;
        Ok(Table::new(joined(&parts, &self.location)?, None))
    }
}

/// Returns an error unless all arrays have the columns of the first.
fn check_widths(parts: &[Dataset<'static>]) -> Result<()> {
    let first = &parts[0];
    match parts.iter().find(|part| part.n_columns() != first.n_columns()) {
        None => Ok(()),
        Some(part) => Err(other_width(part.source(), part.n_columns(), first.source(), first.n_columns())),
    }
}

/// The error for a part with another number of columns than the first.
pub(super) fn other_width(location: &str, given: usize, first: &str, wanted: usize) -> Error {
    let problem = format!("there are {given} columns, but {wanted} in the first part, `{first}`");
    Error::data(location, problem).with_hint("all parts of a table need the same columns")
}

/// The rows of all parts, in the narrowest type that holds them.
fn joined(parts: &[Dataset<'static>], location: &str) -> Result<Dataset<'static>> {
    let (n_rows, d) = (parts.iter().map(Dataset::n_rows).sum::<usize>(), parts[0].n_columns());
    let need = Need::of("", product(&[n_rows, d, size_of::<f64>()]));
    require(&format!("the parts of `{location}`"), &need, "give fewer parts")?;
    fn all<T: Copy>(parts: &[Dataset<'static>], of: impl Fn(&Dataset) -> Option<Vec<T>>) -> Option<Vec<T>> {
        parts.iter().map(of).collect::<Option<Vec<_>>>().map(|each| each.concat())
    }
    let bytes = all(parts, |part| match part.values() {
        Values::U8(v) => Some(v.to_vec()),
        _ => None,
    });
    let is_double = |part: &Dataset| matches!(part.values(), Values::F64(_));
    let values = match bytes {
        Some(bytes) => Values::U8(Array::Owned(bytes)),
        None if parts.iter().any(is_double) => {
            Values::F64(Array::Owned(parts.iter().flat_map(Dataset::cells).collect()))
        }
        None => {
            let mut rows = vec![0.0f32; n_rows * d];
            let each = parts.iter().flat_map(|part| (0..part.n_rows()).map(move |i| (part, i)));
            for (out, (part, i)) in rows.chunks_exact_mut(d).zip(each) {
                part.row_into(i, out);
            }
            Values::F32(Array::Owned(rows))
        }
    };
    let data = Dataset::new(n_rows, d, values, location)?;
    Ok(match parts[0].image() {
        Some(image) => data.with_image(image),
        None => data,
    })
}

/// For each column of the first part, its position in another; an error if that has other columns.
#[cfg(any(test, feature = "parquet", feature = "text"))]
pub(super) fn column_order(
    wanted: &[String],
    given: &[String],
    location: &str,
    first: &str,
) -> Result<Vec<usize>> {
    if wanted == given {
        return Ok((0..wanted.len()).collect());
    }
    let missing: Vec<&String> = wanted.iter().filter(|name| !given.contains(name)).collect();
    let unexpected: Vec<&String> = given.iter().filter(|name| !wanted.contains(name)).collect();
    let mut order: Vec<usize> =
        wanted.iter().filter_map(|name| given.iter().position(|other| other == name)).collect();
    let n_found = order.len();
    order.sort_unstable();
    order.dedup();
    if missing.is_empty() && unexpected.is_empty() && order.len() == given.len() && n_found == given.len() {
        return Ok(wanted.iter().filter_map(|name| given.iter().position(|other| other == name)).collect());
    }
    let each =
        [("missing", missing), ("unexpected", unexpected)].into_iter().filter(|(_, names)| !names.is_empty());
    let problems: Vec<String> = each.map(|(what, names)| format!("{what}: {}", listed(&names, 5))).collect();
    let problems = if problems.is_empty() { "a name occurs twice".to_string() } else { problems.join("; ") };
    let problem = format!("its columns are not those of the first part, `{first}` ({problems})");
    Err(Error::data(location, problem).with_hint("all parts of a table need the same columns, in any order"))
}

/// Whether a name fits a pattern in which `*` stands for any letters and `?` for one. Takes at most as many steps as the product of
/// their lengths.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // The last star, and where in the name it ends for now.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match (pattern.get(p), star) {
            (Some(b'*'), _) => {
                star = Some((p, n));
                p += 1;
            }
            (Some(&wanted), _) if wanted == b'?' || wanted == name[n] => (p, n) = (p + 1, n + 1),
            (_, Some((at, end))) => {
                star = Some((at, end + 1));
                (p, n) = (at + 1, end + 1);
            }
            (_, None) => return false,
        }
    }
    pattern[p..].iter().all(|&rest| rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names() {
        let fits = |pattern: &str, name: &str| matches(pattern.as_bytes(), name.as_bytes());
        assert!(fits("part-*.parquet", "part-0001.parquet") && fits("*", "") && fits("a?c", "abc"));
        assert!(fits("*-*.csv", "a-b-c.csv") && !fits("part-*.parquet", "part-1.csv") && !fits("a?", "a"));
        assert!(
            fits("", "")
                && !fits("", "a")
                && !fits("ab", "a")
                && fits("a*?c**", "aabcc")
                && !fits("*a?", "a")
        );
        assert!(!fits(&("*a".repeat(60) + "b"), &"a".repeat(250)), "which must not take years");
    }

    #[test]
    fn columns_are_matched_by_name() {
        let names = |text: &str| text.split(' ').map(String::from).collect::<Vec<String>>();
        let order = |a: &str, b: &str| column_order(&names(a), &names(b), "2.csv", "1.csv");
        assert_eq!(order("a b c", "c a b").unwrap(), [1, 2, 0]);
        assert_eq!(order("a a", "a a").unwrap(), [0, 1]);
        let text = order("a b", "b d").unwrap_err().to_string();
        assert!(text.contains("`2.csv`") && text.contains("missing: `a`; unexpected: `d`"), "{text}");
        assert!(order("a a b", "b a a").is_err());
    }
}
