//! Folders of images: one row per image, sorted by path.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use image::{ColorType, DynamicImage, ImageDecoder, ImageReader};
use rayon::prelude::*;

use super::dataset::{Dataset, ImageShape, Values};
use super::folder::{FOLDER_NAMES, IMAGE_ENDINGS, sorted_files};
use super::input_file;
use super::labels::Labels;
use super::options::{LabelSource, ReadOptions, Table, not_offered};
use crate::memory::{Need, product, require};
use crate::quiet::catch_panic;
use crate::{Error, Result};

/// Images, and pixels, decoded at a time, so that few of them are in memory twice.
const BLOCK: usize = 256;
const BLOCK_BYTES: usize = 1 << 25;

const SMALLER: &str = "give smaller images, or fewer of them";

/// Reads all images of a folder and its sub-folders, whose names are offered as labels `folder`.
pub(super) fn read_folder(folder: &Path, options: &ReadOptions) -> Result<Table> {
    let location = folder.display().to_string();
    let mut paths = Vec::new();
    collect(folder, &mut paths)?;
    paths.sort();
    if paths.is_empty() {
        return Err(Error::data(&location, "the folder has neither IDX files nor images").with_hint(
            "give a folder with .png, .jpg, .bmp or .pgm files, or with the files of MNIST, STL-10, UCI HAR or \
             RCV1-v2 under their own names, or a single file",
        ));
    }
    let labels = match &options.labels {
        None => None,
        Some(LabelSource::Named(name)) if name == FOLDER_NAMES => Some(folder_names(folder, &paths)?),
        Some(wanted) => {
            return Err(not_offered(&location, wanted, "there is `folder`, the name of the sub-folder"));
        }
    };
    let mut rows = Pixels::new(paths.len(), &paths[0])?;
    for block in paths.chunks(rows.block()) {
        let decoded: Vec<_> = block.par_iter().map(|path| decode(path, rows.size)).collect();
        for image in decoded {
            rows.add(image?)?;
        }
    }
    let (width, height) = rows.size;
    let shape = ImageShape { height: height as usize, width: width as usize, channels: rows.channels };
    let n_columns = shape.height * shape.width * shape.channels;
    let data = Dataset::new(paths.len(), n_columns, Values::U8(rows.values.into()), location)?;
    Ok(Table::new(data.with_image(shape), labels))
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    let ending = |path: &PathBuf| path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
    let is_wanted = |path: &PathBuf| ending(path).is_some_and(|e| IMAGE_ENDINGS.contains(&e.as_str()));
    paths.extend(sorted_files(folder)?.into_iter().filter(is_wanted));
    let fail = |e| Error::io("list", folder, e);
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        // Links to folders are not followed: they may form a cycle.
        let is_folder = entry.file_type().map_err(fail)?.is_dir();
        if is_folder && !entry.file_name().to_string_lossy().starts_with('.') {
            collect(&entry.path(), paths)?;
        }
    }
    Ok(())
}

fn folder_names(folder: &Path, paths: &[PathBuf]) -> Result<Labels> {
    let name = |path: &PathBuf| {
        let inside = path.strip_prefix(folder).ok()?;
        let first = inside.parent()?.components().next()?;
        Some(first.as_os_str().to_string_lossy().into_owned())
    };
    let names = paths.iter().map(|path| {
        name(path).ok_or_else(|| {
            Error::data(path.display(), "the image is not in a sub-folder that names its label")
        })
    });
    Labels::from_text(&names.collect::<Result<Vec<_>>>()?, &folder.display().to_string())
}

/// The pixels of one image: one byte each if all are grey, otherwise three.
struct Image {
    is_grey: bool,
    pixels: Vec<u8>,
}

/// Opens an image and reads only its header.
fn open<'b>(bytes: &'b [u8], path: &Path) -> Result<impl ImageDecoder + 'b> {
    let broken = |e: &dyn std::fmt::Display| broken(path, e);
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(|e| broken(&e))?;
    // No image unpacks to more than this many times its file size; a header that claims more is wrong.
    let mut limits = image::Limits::default();
    limits.max_alloc = Some((bytes.len() as u64).saturating_mul(8192) + (1 << 20));
    reader.limits(limits.clone());
    let mut decoder = reader.into_decoder().map_err(|e| broken(&e))?;
    limits.reserve(decoder.total_bytes()).map_err(|e| broken(&e))?;
    decoder.set_limits(limits).map_err(|e| broken(&e))?;
    Ok(decoder)
}

fn broken(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::data(path.display(), format!("the image cannot be read: {error}"))
        .with_hint("remove or repair the file")
}

/// Decodes an image, which must have the size of the first one.
fn decode(path: &Path, size: (u32, u32)) -> Result<Image> {
    input_file::parse(path, |bytes, _| {
        let decoded = catch_panic(|| decode_bytes(bytes, path, size));
        decoded.unwrap_or_else(|| Err(broken(path, &"the decoder gave up")))
    })
}

fn decode_bytes(bytes: &[u8], path: &Path, size: (u32, u32)) -> Result<Image> {
    let decoder = open(bytes, path)?;
    let (w, h) = decoder.dimensions();
    if (w, h) != size {
        return Err(Error::data(
            path.display(),
            format!("the image is {w} x {h} pixels, the first one is {} x {}", size.0, size.1),
        )
        .with_hint("resize all images to one size first"));
    }
    let as_it_is = matches!(decoder.color_type(), ColorType::L8 | ColorType::Rgb8);
    let converted = if as_it_is { 0 } else { product(&[w as usize, h as usize, 3]) };
    let need = Need::of("unpacked", decoder.total_bytes()).and("converted to 8 bits", converted);
    require(&format!("the image `{}`", path.display()), &need, SMALLER)?;
    Ok(match DynamicImage::from_decoder(decoder).map_err(|e| broken(path, &e))? {
        DynamicImage::ImageLuma8(image) => Image { is_grey: true, pixels: image.into_raw() },
        image => Image::of_colours(image.into_rgb8().into_raw()),
    })
}

impl Image {
    /// Converts from three bytes per pixel.
    fn of_colours(mut pixels: Vec<u8>) -> Self {
        let is_grey = pixels.chunks_exact(3).all(|p| p[0] == p[1] && p[1] == p[2]);
        if is_grey {
            (0..pixels.len() / 3).for_each(|i| pixels[i] = pixels[3 * i]);
            pixels.truncate(pixels.len() / 3);
            pixels.shrink_to_fit();
        }
        Self { is_grey, pixels }
    }
}

/// Rows of pixels: one channel until the first image in colour.
struct Pixels {
    size: (u32, u32),
    n_images: usize,
    channels: usize,
    values: Vec<u8>,
}

impl Pixels {
    /// Allocates for images like the first, whose header is read.
    fn new(n_images: usize, first: &Path) -> Result<Self> {
        let size = input_file::parse(first, |bytes, _| {
            let size = catch_panic(|| open(bytes, first).map(|decoder| decoder.dimensions()));
            size.unwrap_or_else(|| Err(broken(first, &"the decoder gave up")))
        })?;
        let rows = Self { size, n_images, channels: 1, values: Vec::new() };
        rows.require(1)?;
        Ok(rows)
    }

    /// Pixels per image.
    fn n_pixels(&self) -> usize {
        (self.size.0 as usize).saturating_mul(self.size.1 as usize)
    }

    /// Images decoded at a time.
    fn block(&self) -> usize {
        (BLOCK_BYTES / self.n_pixels().max(1)).clamp(1, BLOCK)
    }

    /// Returns an error if the memory cannot hold all images with this many channels.
    fn require(&self, channels: usize) -> Result<()> {
        let (w, h) = self.size;
        let what = format!("a table of {} images of {w} x {h} pixels", self.n_images);
        let rows = Need::of("", product(&[self.n_images, self.n_pixels(), channels]));
        require(&what, &rows, SMALLER)
    }

    fn add(&mut self, image: Image) -> Result<()> {
        if self.channels == 1 && !image.is_grey {
            self.require(3)?;
            self.channels = 3;
            self.values = self.values.iter().flat_map(|&v| [v; 3]).collect();
        }
        if self.values.is_empty() && image.is_grey == (self.channels == 1) {
            self.values = image.pixels;
        } else if image.is_grey && self.channels == 3 {
            self.reserve();
            self.values.extend(image.pixels.iter().flat_map(|&v| [v; 3]));
        } else {
            self.reserve();
            self.values.extend_from_slice(&image.pixels);
        }
        Ok(())
    }

    /// Allocates for all images once their number of channels is known.
    fn reserve(&mut self) {
        let all = self.n_images.saturating_mul(self.n_pixels()).saturating_mul(self.channels);
        self.values.reserve_exact(all.saturating_sub(self.values.len()));
    }
}
