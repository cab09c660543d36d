//! Folders: data sets recognised by their file names, MNIST's IDX files, or images.

use std::fs;
use std::path::{Path, PathBuf};

use super::bytes::Source;
use super::elements::NdArray;
use super::input_file::InputFile;
use super::options::{LabelSource, ReadOptions, Table, no_arrays, not_offered};
use super::parts::{PartKind, Parts};
use super::read::extension;
use super::{har, idx, images, rcv1, stl10};
use crate::{Error, Result};

/// The name of the labels of a known data set.
const LABELS: &str = "y";
/// The name of the labels that are names of sub-folders.
pub(super) const FOLDER_NAMES: &str = "folder";

/// Endings of image files.
pub(super) const IMAGE_ENDINGS: [&str; 6] = ["png", "jpg", "jpeg", "bmp", "pgm", "ppm"];

/// Reads a folder: STL-10, UCI HAR and RCV1-v2 recognised by their file names, IDX files by their content, otherwise
/// images. Folders of [parts](Parts) are read there.
pub(super) fn read(folder: &Path, options: &ReadOptions) -> Result<Table> {
    if let Some(name) = &options.array {
        let held = "a folder holds one table";
        return Err(no_arrays(&folder.display().to_string(), name, held));
    }
    // Names are checked first: raw pixels and word lists could start like any other file.
    if stl10::is_folder(folder) {
        return stl10::read_folder(folder, options);
    }
    if har::is_folder(folder) {
        return har::read_folder(folder, options);
    }
    if rcv1::is_folder(folder) {
        return rcv1::read_folder(folder, options);
    }
    let mut parts = idx_files(folder)?;
    if parts.is_empty() {
        return images::read_folder(folder, options);
    }
    // A folder may hold both the unpacked and the packed copy of a file; the unpacked one is read.
    let unpacked: Vec<String> = parts.iter().map(|p| p.location.clone()).collect();
    parts.retain(|p| p.location.strip_suffix(".gz").is_none_or(|stem| !unpacked.iter().any(|u| u == stem)));
    parts.sort_by_key(|p| !p.is_train());
    let (labels, images): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(Part::is_labels);
    let table = read_idx(folder, &images, &labels, options);
    images.iter().chain(&labels).try_for_each(|part| part.file.check_unchanged())?;
    table
}

/// Whether `name` stands for labels in this folder.
pub(super) fn offers(folder: &Path, name: &str) -> Result<bool> {
    if stl10::is_folder(folder) || har::is_folder(folder) || rcv1::is_folder(folder) {
        return Ok(name == LABELS);
    }
    let parts = idx_files(folder)?;
    if parts.is_empty() {
        return Ok(name == FOLDER_NAMES);
    }
    Ok(name == LABELS && parts.iter().any(Part::is_labels))
}

/// The parts of one table, if that is what the folder holds.
pub(super) fn parts(folder: &Path) -> Result<Option<Parts>> {
    if stl10::is_folder(folder) || har::is_folder(folder) || rcv1::is_folder(folder) {
        return Ok(None);
    }
    let is_listed = |path: &PathBuf| !path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('_'));
    let files: Vec<PathBuf> = sorted_files(folder)?.into_iter().filter(is_listed).collect();
    let is_part = |path: &PathBuf| PartKind::of(path).is_some();
    let has_others = !files.iter().all(is_part);
    // Among others they may be notes or labels of images.
    if !files.iter().any(is_part) || has_others && (has_images(&files) || !idx_files(folder)?.is_empty()) {
        return Ok(None);
    }
    Parts::new(files, folder).map(Some)
}

fn has_images(files: &[PathBuf]) -> bool {
    let is_image = |path: &PathBuf| IMAGE_ENDINGS.contains(&extension(path).as_str());
    files.iter().any(is_image)
}

fn idx_files(folder: &Path) -> Result<Vec<Part>> {
    let opened = sorted_files(folder)?.into_iter().map(Part::open);
    opened.filter_map(Result::transpose).collect()
}

/// All files of a folder except hidden ones, sorted by name.
pub(super) fn sorted_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let fail = |e| Error::io("list", folder, e);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let hidden = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.'));
        if !hidden && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The file `name` in `folder`, or else its gzip-compressed copy.
pub(super) fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    [folder.join(name), folder.join(format!("{name}.gz"))].into_iter().find(|path| path.is_file())
}

/// Like [`find`], for a file that the data set requires.
pub(super) fn companion(folder: &Path, name: &str, hint: &str) -> Result<PathBuf> {
    find(folder, name).ok_or_else(|| {
        Error::data(folder.display(), format!("there is neither `{name}` nor `{name}.gz` in the folder"))
            .with_hint(hint)
    })
}

/// Whether labels are wanted, in a folder that offers them only as `y`.
pub(super) fn wants_y(options: &ReadOptions, location: &str) -> Result<bool> {
    match &options.labels {
        None => Ok(false),
        Some(LabelSource::Named(name)) if name == LABELS => Ok(true),
        Some(wanted) => Err(not_offered(location, wanted, "there is `y`")),
    }
}

/// An IDX file of the folder.
struct Part {
    file: InputFile,
    location: String,
    name: String,
    shape: Vec<usize>,
}

impl Part {
    fn open(path: PathBuf) -> Result<Option<Self>> {
        let file = InputFile::open(&path)?;
        let location = path.display().to_string();
        let start = Source::of_bytes(&file, &location).take::<4>();
        if !start.is_ok_and(|start| idx::is_idx(&start)) {
            return Ok(None);
        }
        let header = idx::read_header(&mut Source::of_bytes(&file, &location));
        let shape = file.unless_changed(header)?.shape;
        let name = path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
        Ok(Some(Self { file, location, name, shape }))
    }

    fn is_labels(&self) -> bool {
        self.shape.len() == 1
    }

    fn is_train(&self) -> bool {
        self.name.contains("train")
    }

    fn source(&self) -> Source<'_> {
        Source::of_bytes(&self.file, &self.location)
    }
}

fn read_idx(folder: &Path, images: &[Part], labels: &[Part], options: &ReadOptions) -> Result<Table> {
    let location = folder.display().to_string();
    if images.is_empty() || images.len() > 2 || (!labels.is_empty() && labels.len() != images.len()) {
        return Err(Error::data(
            &location,
            format!("the folder has {} IDX files of rows and {} of labels", images.len(), labels.len()),
        )
        .with_hint(
            "give a folder with the four files of MNIST (train and test), or with one pair, or a single file",
        ));
    }
    let array = idx::read_concatenated(images.iter().map(Part::source).collect())?;
    let data = array.into_dataset(&location)?;
    let labels = match &options.labels {
        None => None,
        Some(LabelSource::Named(name)) if name == LABELS && !labels.is_empty() => {
            for (image, label) in images.iter().zip(labels) {
                if image.shape[0] != label.shape[0] {
                    return Err(Error::data(
                        &label.location,
                        format!(
                            "there are {} labels for the {} rows of `{}`",
                            label.shape[0], image.shape[0], image.name
                        ),
                    ));
                }
            }
            let array: NdArray = idx::read_concatenated(labels.iter().map(Part::source).collect())?;
            Some(array.into_labels(&location)?)
        }
        Some(wanted) => {
            let offered = if labels.is_empty() { "there is no IDX file of labels" } else { "there is `y`" };
            return Err(not_offered(&location, wanted, offered));
        }
    };
    Ok(Table::new(data, labels))
}
