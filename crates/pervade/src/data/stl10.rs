//! STL-10's binary files (Coates, Ng and Lee, AISTATS 2011): bytes without a header, recognised by name.
//!
//! An image is 3 x 96 x 96 bytes, channel by channel, and within a channel column by column. Rows here are pixel by
//! pixel with interleaved channels, like all colour images.

use std::path::Path;

use super::bytes::Source;
use super::dataset::{Dataset, ImageShape, Values};
use super::folder::{companion, find, wants_y};
use super::input_file;
use super::labels::Labels;
use super::options::{ReadOptions, Table, not_offered};
use crate::{Error, Result};

const SIDE: usize = 96;
const CHANNELS: usize = 3;
const PICTURE_BYTES: usize = SIDE * SIDE * CHANNELS;
const N_CLASSES: usize = 10;

const PICTURE_FILES: [&str; 3] = ["train_X.bin", "test_X.bin", "unlabeled_X.bin"];
const LABEL_FILES: [&str; 2] = ["train_y.bin", "test_y.bin"];
const WHOLE: &str = "the folder `stl10_binary` has train_X.bin, train_y.bin, test_X.bin and test_y.bin; \
                     a single file of pictures, such as unlabeled_X.bin, can be given by itself";

/// Whether a folder has files of STL-10, complete or not.
pub(super) fn is_folder(folder: &Path) -> bool {
    PICTURE_FILES.iter().chain(&LABEL_FILES).any(|name| find(folder, name).is_some())
}

/// Whether a file has the name of one with images.
pub(super) fn is_pictures(path: &Path) -> bool {
    PICTURE_FILES.contains(&unpacked_name(path).as_str())
}

/// Whether a file has the name of one with labels.
pub(super) fn is_labels(path: &Path) -> bool {
    LABEL_FILES.contains(&unpacked_name(path).as_str())
}

/// Reads the training images and then the test images; their labels are offered as `y`.
pub(super) fn read_folder(folder: &Path, options: &ReadOptions) -> Result<Table> {
    let location = folder.display().to_string();
    let wanted = wants_y(options, &location)?;
    let class_names = if wanted { class_names(folder)? } else { None };
    let mut pixels = Vec::new();
    let mut words: Vec<String> = Vec::new();
    for (pictures, labels) in PICTURE_FILES.into_iter().zip(LABEL_FILES) {
        let n_before = pixels.len() / PICTURE_BYTES;
        let path = companion(folder, pictures, WHOLE)?;
        input_file::parse(&path, |bytes, _| File::new(&path, bytes).append_pictures(&mut pixels))?;
        if !wanted {
            continue;
        }
        let path = companion(folder, labels, WHOLE)?;
        let classes = input_file::parse(&path, |bytes, _| File::new(&path, bytes).classes())?;
        let n_pictures = pixels.len() / PICTURE_BYTES - n_before;
        if classes.len() != n_pictures {
            let problem =
                format!("there are {} labels for the {n_pictures} pictures of `{pictures}`", classes.len());
            return Err(
                Error::data(path.display(), problem).with_hint("the two files do not belong together")
            );
        }
        words.extend(classes.into_iter().map(|class| match &class_names {
            Some(names) => names[class - 1].clone(),
            None => class.to_string(),
        }));
    }
    let labels = if wanted { Some(Labels::from_text(&words, &location)?) } else { None };
    Ok(Table::new(into_dataset(pixels, &location)?, labels))
}

/// Reads one file of images, such as `unlabeled_X.bin`.
pub(super) fn read_pictures(path: &Path, bytes: &[u8], options: &ReadOptions) -> Result<Table> {
    let file = File::new(path, bytes);
    if let Some(wanted) = &options.labels {
        return Err(not_offered(&file.location, wanted, "the file holds only pictures"));
    }
    let mut pixels = Vec::new();
    file.append_pictures(&mut pixels)?;
    Ok(Table::new(into_dataset(pixels, &file.location)?, None))
}

/// Reads one file of labels, 1 to 10.
pub(super) fn read_labels(path: &Path, bytes: &[u8]) -> Result<Labels> {
    let classes = File::new(path, bytes).classes()?;
    Ok(Labels::from_integers(&classes.into_iter().map(|class| class as i64).collect::<Vec<_>>()))
}

/// The error for a label file where images are expected, or vice versa.
pub(super) fn other_kind(location: &str, is: &str, not: &str) -> Error {
    Error::data(location, format!("the file holds STL-10's {is}, not its {not}")).with_hint(WHOLE)
}

struct File<'a> {
    bytes: &'a [u8],
    location: String,
    is_packed: bool,
}

impl<'a> File<'a> {
    fn new(path: &Path, bytes: &'a [u8]) -> Self {
        let is_packed = path.extension().is_some_and(|ending| ending == "gz");
        Self { bytes, location: path.display().to_string(), is_packed }
    }

    /// The name says whether the file is packed: the first two pixels could look like the header of gzip.
    fn source(&self) -> Source<'a> {
        let open = if self.is_packed { Source::gzip } else { Source::plain };
        open(self.bytes, &self.location)
    }

    fn append_pictures(&self, pixels: &mut Vec<u8>) -> Result<()> {
        let n_before = pixels.len();
        // The length of an unpacked file is known; a packed one grows as it is read.
        let known = if self.is_packed { 0 } else { self.bytes.len() };
        pixels
            .try_reserve_exact(known)
            .map_err(|_| Error::data(&self.location, "no memory for the pictures"))?;
        let mut source = self.source();
        let mut picture = vec![0; PICTURE_BYTES];
        loop {
            let n_bytes = source.fill(&mut picture)?;
            if n_bytes == 0 {
                break;
            }
            if n_bytes < PICTURE_BYTES {
                let total = pixels.len() - n_before + n_bytes;
                return Err(Error::data(
                    &self.location,
                    format!(
                        "{total} bytes are not a whole number of pictures of {PICTURE_BYTES} bytes \
                         (3 channels x 96 x 96)"
                    ),
                )
                .with_hint("the file is cut short or damaged, or is not one of STL-10's"));
            }
            append_interleaved(&picture, pixels);
        }
        if pixels.len() == n_before {
            return Err(Error::data(&self.location, "the file holds no pictures"));
        }
        Ok(())
    }

    /// The classes, counted from 1 as in the file.
    fn classes(&self) -> Result<Vec<usize>> {
        let class = |(i, &class): (usize, &u8)| match class.into() {
            class @ 1..=N_CLASSES => Ok(class),
            _ => Err(Error::data(
                &self.location,
                format!("the label of picture {} is {class}, must be 1 to {N_CLASSES}", i + 1),
            )
            .with_hint("the file is damaged, or is not one of STL-10's")),
        };
        self.source().rest()?.iter().enumerate().map(class).collect()
    }
}

/// From `[channel, x, y]` as in the file to `[y, x, channel]`.
fn append_interleaved(picture: &[u8], pixels: &mut Vec<u8>) {
    for y in 0..SIDE {
        for x in 0..SIDE {
            pixels.extend((0..CHANNELS).map(|channel| picture[(channel * SIDE + x) * SIDE + y]));
        }
    }
}

fn into_dataset(pixels: Vec<u8>, location: &str) -> Result<Dataset<'static>> {
    let n_rows = pixels.len() / PICTURE_BYTES;
    let data = Dataset::new(n_rows, PICTURE_BYTES, Values::U8(pixels.into()), location)?;
    Ok(data.with_image(ImageShape { height: SIDE, width: SIDE, channels: CHANNELS }))
}

/// The names of the classes, one per line; without the file, numbers serve as names.
fn class_names(folder: &Path) -> Result<Option<Vec<String>>> {
    let Some(path) = find(folder, "class_names.txt") else { return Ok(None) };
    let location = path.display().to_string();
    let mut names = Vec::new();
    input_file::parse(&path, |bytes, location| {
        Source::of_bytes(bytes, location).each_line(|_, line| {
            let name = String::from_utf8_lossy(line).trim().to_string();
            names.extend(Some(name).filter(|name| !name.is_empty()));
            Ok(())
        })
    })?;
    if names.len() != N_CLASSES {
        return Err(Error::data(
            location,
            format!("there are names for {} classes, expected {N_CLASSES}", names.len()),
        )
        .with_hint("remove the file to number the classes instead"));
    }
    Ok(Some(names))
}

/// The name of a file without the suffix `.gz`.
fn unpacked_name(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.strip_suffix(".gz").map(String::from).unwrap_or(name)
}
