//! A folder of images: one row an image, in the order of the paths.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use image::ImageReader;
use rayon::prelude::*;

use super::dataset::{Dataset, ImageShape, Values};
use super::folder::sorted_files;
use super::input_file;
use super::labels::Labels;
use super::options::{LabelSource, ReadOptions, Table, not_offered};
use crate::quiet::catch_panic;
use crate::{Error, Result};

/// Images that are unpacked at a time, so that few of them are held twice.
const BLOCK: usize = 256;

/// Whether bytes begin as PNG, JPEG, BMP or PGM/PPM files do.
pub(super) fn is_image(head: &[u8]) -> bool {
    // "BM" and "P5" could begin a text, so a byte that text has not must follow.
    let netpbm = matches!(head, [b'P', b'2' | b'3' | b'5' | b'6', b' ' | b'\n' | b'\r' | b'\t', ..]);
    head.starts_with(b"\x89PNG\r\n")
        || head.starts_with(b"\xff\xd8\xff")
        || netpbm
        || (head.starts_with(b"BM") && head.contains(&0))
}

/// Reads all images of a folder and of the folders in it, whose names are offered as labels `folder`.
pub(super) fn read_folder(folder: &Path, options: &ReadOptions) -> Result<Table> {
    let place = folder.display().to_string();
    let mut paths = Vec::new();
    collect(folder, &mut paths)?;
    paths.sort();
    if paths.is_empty() {
        return Err(Error::data(&place, "the folder has neither IDX files nor images").with_hint(
            "give a folder with .png, .jpg, .bmp or .pgm files, or with the files of MNIST, STL-10, UCI HAR or \
             RCV1-v2 under their own names, or a single file",
        ));
    }
    let labels = match &options.labels {
        None => None,
        Some(LabelSource::Named(name)) if name == "folder" => Some(folder_names(folder, &paths)?),
        Some(wanted) => {
            return Err(not_offered(&place, wanted, "there is `folder`, the name of the sub-folder"));
        }
    };
    let mut rows = Pixels { size: None, channels: 1, values: Vec::new() };
    for block in paths.chunks(BLOCK) {
        let decoded: Vec<_> = block.par_iter().map(|path| decode(path)).collect();
        for (path, image) in block.iter().zip(decoded) {
            rows.add(image?, path)?;
        }
    }
    let (width, height) = rows.size.unwrap_or((0, 0));
    let shape = ImageShape { height: height as usize, width: width as usize, channels: rows.channels };
    let n_columns = shape.height * shape.width * shape.channels;
    let data = Dataset::new(paths.len(), n_columns, Values::U8(rows.values.into()), place)?;
    Ok(Table { data: data.with_image(shape), labels })
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    const ENDINGS: [&str; 6] = ["png", "jpg", "jpeg", "bmp", "pgm", "ppm"];
    let ending = |path: &PathBuf| path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
    let is_wanted = |path: &PathBuf| ending(path).is_some_and(|e| ENDINGS.contains(&e.as_str()));
    paths.extend(sorted_files(folder)?.into_iter().filter(is_wanted));
    let fail = |e| Error::io("list", folder, e);
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        // Links to folders are not followed: they may lead back here.
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
            Error::data(path.display(), "the image lies in no sub-folder that could name its label")
        })
    });
    Labels::from_text(&names.collect::<Result<Vec<_>>>()?, &folder.display().to_string())
}

/// The pixels of one image, three bytes each.
fn decode(path: &Path) -> Result<image::RgbImage> {
    let broken = |e: &dyn std::fmt::Display| {
        Error::data(path.display(), format!("the image cannot be read: {e}"))
            .with_hint("remove or repair the file")
    };
    let decode = |bytes: &[u8]| {
        let mut reader =
            ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(|e| broken(&e))?;
        // No image unpacks to more than this many times its file; a header that says so lies.
        let mut limits = image::Limits::default();
        limits.max_alloc = Some((bytes.len() as u64).saturating_mul(8192) + (1 << 20));
        reader.limits(limits);
        Ok(reader.decode().map_err(|e| broken(&e))?.into_rgb8())
    };
    input_file::parse(path, |bytes, _| {
        catch_panic(|| decode(bytes)).unwrap_or_else(|| Err(broken(&"the decoder gave up")))
    })
}

/// Rows of pixels: one channel until the first image with colour.
struct Pixels {
    size: Option<(u32, u32)>,
    channels: usize,
    values: Vec<u8>,
}

impl Pixels {
    fn add(&mut self, image: image::RgbImage, path: &Path) -> Result<()> {
        let size = *self.size.get_or_insert(image.dimensions());
        if image.dimensions() != size {
            let (w, h) = image.dimensions();
            return Err(Error::data(
                path.display(),
                format!("the image is {w} x {h} pixels, the first one is {} x {}", size.0, size.1),
            )
            .with_hint("bring all images to one size first"));
        }
        let is_grey = image.pixels().all(|p| p[0] == p[1] && p[1] == p[2]);
        if self.channels == 1 && !is_grey {
            self.values = self.values.iter().flat_map(|&v| [v; 3]).collect();
            self.channels = 3;
        }
        if self.channels == 1 {
            self.values.extend(image.pixels().map(|p| p[0]));
        } else {
            self.values.extend_from_slice(image.as_raw());
        }
        Ok(())
    }
}
