//! The one entry point for data files: the format is recognised by content first and by extension second; only STL-10's
//! files, which are bare pixels, are recognised by name.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bytes::{self, FileBytes, Source};
use super::dataset::Dataset;
use super::input_file::InputFile;
use super::labels::Labels;
use super::mapped::FileMap;
use super::options::{LabelSource, ReadOptions, Table, no_arrays, no_text, not_offered};
use super::other_formats::{advice, is_text};
use super::parts::Parts;
use super::{folder, idx, mat, npy, npz, parquet, stl10, svmlight, text};
use crate::{Error, Hint, Result};

/// Bytes inspected to recognise a format.
const HEAD: usize = 4096;

const KINDS: &str = "files of numbers can be .npy, .npz, .csv, .tsv, .parquet, IDX, svmlight or .mat";

/// Reads a table, and the labels that `options` selects, from a file or folder.
pub fn read(path: &Path, options: &ReadOptions) -> Result<Table> {
    if let Some(parts) = Parts::find(path)? {
        let options = located(options, |_| Ok(false))?;
        return read_both(path, options, |inside| parts.read(inside));
    }
    if path.is_dir() {
        if options.decimal_comma {
            return Err(no_text(&path.display().to_string()));
        }
        let options = located(options, |name| folder::offers(path, name))?;
        return read_both(path, options, |inside| folder::read(path, inside)?.with_column_options(inside));
    }
    read_file(InputFile::open(path)?, path, options)
}

/// Reads an open file.
pub(super) fn read_file(file: InputFile, path: &Path, options: &ReadOptions) -> Result<Table> {
    let ending = extension(path);
    let input = Input::of_file(&file, path, &ending);
    let options = file.unless_changed(located(options, |name| input.offers(name)))?;
    let mut table = read_both(path, options, |inside| file.unless_changed(input.table(inside)))?;
    if table.data.is_in_place() {
        table.data = table.data.with_file(file);
    }
    Ok(table)
}

impl Dataset<'static> {
    /// Reads a table without labels from a file or folder, in any format that [`read`] supports.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Ok(read(path.as_ref(), &ReadOptions::default())?.data)
    }
}

/// Resolves where the labels are: a bare name is a file only if the data offer no labels of that name.
pub(super) fn located(
    options: &ReadOptions,
    offers: impl FnOnce(&str) -> Result<bool>,
) -> Result<ReadOptions> {
    let mut options = options.clone();
    if let Some(LabelSource::Named(name)) = &options.labels
        && Path::new(name).is_file()
        && !offers(name)?
    {
        options.labels = Some(LabelSource::File(name.into()));
    }
    Ok(options)
}

/// Rows and labels; `inside` reads the table and the labels within it.
fn read_both(
    path: &Path,
    mut options: ReadOptions,
    inside: impl FnOnce(&ReadOptions) -> Result<Table>,
) -> Result<Table> {
    let labels_from = options.labels.clone();
    let label_file = match &labels_from {
        Some(LabelSource::File(file)) => {
            options.labels = None;
            Some(file)
        }
        _ => None,
    };
    let mut table = inside(&options)?;
    if let Some(file) = label_file {
        table.labels = Some(read_labels(file)?);
    }
    if let Some(labels) = &table.labels {
        let location = label_file.map_or(path, PathBuf::as_path).display().to_string();
        labels.check_length(table.data.n_rows(), &location)?;
    }
    table.labels_from = labels_from;
    Ok(table.noting_absent_gaps(&options))
}

/// Reads a table from the bytes of a file; `extension` decides if the content is ambiguous.
pub fn read_bytes(bytes: &[u8], extension: &str, options: &ReadOptions) -> Result<Table> {
    let extension = extension.trim_start_matches('.').to_ascii_lowercase();
    let table = Input::of_memory(bytes, &extension).table(options)?;
    if let Some(labels) = &table.labels {
        labels.check_length(table.data.n_rows(), "bytes in memory")?;
    }
    Ok(table.noting_absent_gaps(options))
}

/// Reads a label file: one array, or text with one column.
pub fn read_labels(path: &Path) -> Result<Labels> {
    let file = InputFile::open(path)?;
    file.unless_changed(Input::of_file(&file, path, &extension(path)).labels())
}

/// Reads labels from the bytes of a file.
pub fn read_label_bytes(bytes: &[u8], extension: &str) -> Result<Labels> {
    let extension = extension.trim_start_matches('.').to_ascii_lowercase();
    Input::of_memory(bytes, &extension).labels()
}

/// The supported file formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Npy,
    Npz,
    Idx,
    Parquet,
    Mat,
    Svmlight,
    Text,
    Stl10Pictures,
    Stl10Labels,
}

/// The bytes of one file, possibly compressed by gzip, and what is known about it.
pub(super) struct Input<'a> {
    bytes: &'a [u8],
    map: Option<&'a Arc<FileMap>>,
    path: Option<&'a Path>,
    location: &'a str,
    extension: &'a str,
}

impl<'a> Input<'a> {
    pub(super) fn of_file(file: &'a InputFile, path: &'a Path, extension: &'a str) -> Self {
        Self { bytes: file, map: file.map(), path: Some(path), location: file.location(), extension }
    }

    fn of_memory(bytes: &'a [u8], extension: &'a str) -> Self {
        Self { bytes, map: None, path: None, location: "bytes in memory", extension }
    }

    fn table(&self, options: &ReadOptions) -> Result<Table> {
        let format = self.format()?;
        let table = self.stored_table(format, options)?;
        // The columns of the others are given types where they are read.
        let is_array = !matches!(format, Format::Text | Format::Parquet);
        if is_array || options.plain.is_some() { table.with_column_options(options) } else { Ok(table) }
    }

    fn stored_table(&self, format: Format, options: &ReadOptions) -> Result<Table> {
        if let Some(name) = &options.array
            && !matches!(format, Format::Npz | Format::Mat)
        {
            let is_array = matches!(format, Format::Npy | Format::Idx);
            let held = if is_array { "one array without a name" } else { "one table" };
            return Err(no_arrays(self.location, name, &format!("the file holds {held}")));
        }
        if options.decimal_comma && format != Format::Text {
            return Err(no_text(self.location));
        }
        let array = match format {
            Format::Npz => return npz::read(&self.unpacked()?, self.location, options),
            Format::Parquet => return parquet::read(self.file_bytes()?, self.location, options),
            Format::Mat => return mat::read(&self.unpacked()?, self.location, options),
            Format::Svmlight => return svmlight::read(&self.unpacked()?, self.location, options),
            Format::Text => return text::read(&self.unpacked()?, self.location, options),
            Format::Stl10Pictures => return stl10::read_pictures(&self.path(), self.bytes, options),
            Format::Stl10Labels => return Err(stl10::other_kind(self.location, "labels", "pictures")),
            Format::Idx => idx::read(&mut self.source())?,
            Format::Npy => {
                let plain = self.map.filter(|_| !bytes::is_gzip(self.bytes));
                let in_place = plain.map(|map| npy::in_place(map, self.location)).transpose()?.flatten();
                match in_place {
                    Some(array) => array,
                    None => npy::read(&mut self.source())?,
                }
            }
        };
        if let Some(wanted) = &options.labels {
            return Err(not_offered(self.location, wanted, "the file holds one array"));
        }
        Ok(Table::new(array.into_dataset(self.location)?, None))
    }

    /// Whether `name` stands for labels in this file.
    pub(super) fn offers(&self, name: &str) -> Result<bool> {
        match self.format()? {
            Format::Npz => npz::has_array(&self.unpacked()?, self.location, name),
            Format::Mat => mat::has_array(&self.unpacked()?, self.location, name),
            Format::Svmlight => Ok(name == svmlight::LABELS),
            _ => Ok(false),
        }
    }

    fn labels(&self) -> Result<Labels> {
        match self.format()? {
            Format::Npz => npz::read_labels(&self.unpacked()?, self.location),
            Format::Mat => mat::read_labels(&self.unpacked()?, self.location),
            Format::Text => text::read_labels(&self.unpacked()?, self.location),
            Format::Npy => npy::read(&mut self.source())?.into_labels(self.location),
            Format::Idx => idx::read(&mut self.source())?.into_labels(self.location),
            Format::Parquet => parquet::read_labels(self.file_bytes()?, self.location),
            Format::Stl10Labels => stl10::read_labels(&self.path(), self.bytes),
            Format::Stl10Pictures => Err(stl10::other_kind(self.location, "pictures", "labels")),
            Format::Svmlight => {
                Err(Error::data(self.location, "an svmlight file is a table, not a list of labels")
                    .with_hint(Hint::new("its labels are read with ").setting_to("labels", svmlight::LABELS)))
            }
        }
    }

    /// The file as a stream, unpacked while it is read.
    fn source(&self) -> Source<'a> {
        Source::of_bytes(self.bytes, self.location)
    }

    /// The whole file, unpacked.
    fn unpacked(&self) -> Result<Cow<'a, [u8]>> {
        if bytes::is_gzip(self.bytes) {
            Ok(Cow::Owned(self.source().rest()?))
        } else {
            Ok(Cow::Borrowed(self.bytes))
        }
    }

    /// The whole file, unpacked, in its map if that is possible.
    pub(super) fn file_bytes(&self) -> Result<FileBytes> {
        match self.map.filter(|_| !bytes::is_gzip(self.bytes)) {
            Some(map) => Ok(FileBytes::Mapped(map.clone())),
            None => Ok(FileBytes::Owned(Arc::new(self.unpacked()?.into_owned()))),
        }
    }

    /// The whole file as it is.
    #[cfg_attr(not(feature = "text"), expect(dead_code, reason = "for texts"))]
    pub(super) fn packed_bytes(&self) -> FileBytes {
        match self.map {
            Some(map) => FileBytes::Mapped(map.clone()),
            None => FileBytes::Owned(Arc::new(self.bytes.to_vec())),
        }
    }

    /// Whether the file is compressed by gzip.
    pub(super) fn is_packed(&self) -> bool {
        bytes::is_gzip(self.bytes)
    }

    fn path(&self) -> PathBuf {
        self.path.map(Path::to_path_buf).unwrap_or_default()
    }

    pub(super) fn format(&self) -> Result<Format> {
        match self.path {
            Some(path) if stl10::is_pictures(path) => return Ok(Format::Stl10Pictures),
            Some(path) if stl10::is_labels(path) => return Ok(Format::Stl10Labels),
            _ => {}
        }
        let head = if bytes::is_gzip(self.bytes) {
            Cow::Owned(self.source().head(HEAD)?)
        } else {
            Cow::Borrowed(&self.bytes[..self.bytes.len().min(HEAD)])
        };
        if head.is_empty() {
            return Err(Error::data(self.location, "the file is empty"));
        }
        if let Some((what, hint)) = advice(&head, self.extension) {
            return Err(Error::data(self.location, what).with_hint(hint));
        }
        if let Some(format) = by_magic(&head) {
            return Ok(format);
        }
        match self.extension {
            "npy" | "npz" | "parquet" | "mat" | "png" | "jpg" | "jpeg" => {
                let start = &head[..head.len().min(8)];
                Err(Error::data(
                    self.location,
                    format!(
                        "this is not a .{} file: it starts with `{}`",
                        self.extension,
                        start.escape_ascii()
                    ),
                )
                .with_hint("the file is damaged, or its name ends wrongly"))
            }
            _ if !is_text(&head) => Err(Error::data(
                self.location,
                format!(
                    "the format of this file is unknown: it starts with `{}`",
                    head[..head.len().min(8)].escape_ascii()
                ),
            )
            .with_hint(KINDS)),
            "svm" | "svmlight" | "libsvm" => Ok(Format::Svmlight),
            _ if svmlight::is_svmlight(&head) => Ok(Format::Svmlight),
            _ => Ok(Format::Text),
        }
    }
}

fn by_magic(head: &[u8]) -> Option<Format> {
    Some(match head {
        _ if head.starts_with(npy::MAGIC) => Format::Npy,
        _ if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") => Format::Npz,
        _ if head.starts_with(b"PAR1") => Format::Parquet,
        _ if head.starts_with(b"MATLAB 5.0") => Format::Mat,
        _ if idx::is_idx(head) => Format::Idx,
        _ => return None,
    })
}

/// The whole file, unpacked, in its map if that is possible.
pub(super) fn file_bytes(file: &InputFile) -> Result<FileBytes> {
    Input::of_file(file, Path::new(""), "").file_bytes()
}

/// `csv` for `a.csv` and for `a.csv.gz`.
pub(super) fn extension(path: &Path) -> String {
    let name = path.file_name().map(|n| n.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.rsplit_once('.').map(|(_, ending)| ending.to_string()).unwrap_or_default()
}
