//! The data that figures are drawn from, small enough to keep with the tables' records.

use std::path::{Path, PathBuf};

use pervade::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Figure;
use crate::outputs;

/// A figure's record: the settings of its runs, and the data to draw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FigureRecord<B> {
    pub(super) figure: String,
    pub(super) data: String,
    /// The name of the data set in titles.
    pub(super) title: String,
    pub(super) rows: usize,
    pub(super) data_checksum: String,
    /// VaDE's settings.
    pub(super) settings: Map<String, Value>,
    /// Flags that changed them for a quick look.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) overrides: Map<String, Value>,
    pub(super) device: String,
    pub(super) version: String,
    pub(super) numbers: B,
}

/// Accuracy after each epoch of joint training, the mixture start first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Accuracy {
    /// One list per restart.
    pub(super) restarts: Vec<Vec<f64>>,
    /// The restart that would be kept without labels.
    pub(super) chosen: usize,
}

/// Points in a plane, with their label and whether their cluster is matched to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Points {
    /// The label of each point, as an index into `names`.
    pub(super) labels: Vec<u32>,
    pub(super) names: Vec<String>,
    pub(super) panels: Vec<PointPanel>,
    /// Panels that are left out, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PointPanel {
    pub(super) name: String,
    /// Accuracy on all rows, not only the points.
    pub(super) accuracy: f64,
    pub(super) points: Vec<[f64; 2]>,
    /// Whether the point's cluster is matched to its label; empty if that is not drawn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) right: Vec<bool>,
}

/// Generated images, one line per cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pictures {
    /// Columns of pixels.
    pub(super) width: usize,
    pub(super) panels: Vec<PicturePanel>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PicturePanel {
    pub(super) name: String,
    pub(super) title: String,
    /// The label before each line.
    pub(super) names: Vec<String>,
    /// Images, line by line: two hexadecimal digits per pixel.
    pub(super) lines: Vec<Vec<String>>,
}

impl<B: Serialize + DeserializeOwned> FigureRecord<B> {
    /// Loads the record of a figure below `out`, if it exists.
    pub(super) fn load(out: &Path, figure: Figure) -> Result<Option<Self>> {
        let path = path_of(out, figure);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read", &path, error)),
        };
        serde_json::from_str(&text).map(Some).map_err(|e| {
            Error::data(path.display(), format!("not a figure's record: {e}"))
                .with_hint("move the file away to make it again")
        })
    }

    /// Writes the record atomically; on few lines, because most of it is numbers.
    pub(super) fn save(&self, out: &Path, figure: Figure) -> Result<()> {
        let path = path_of(out, figure);
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
        let text =
            serde_json::to_string(self).map_err(|e| Error::io("write", &path, std::io::Error::other(e)))?;
        outputs::text(&path, &(text + "\n"))
    }

    /// Returns an error unless `earlier` was made from the same data with the same settings.
    pub(super) fn check_same(&self, earlier: &Self, out: &Path, figure: Figure) -> Result<()> {
        if (&earlier.settings, &earlier.data_checksum) == (&self.settings, &self.data_checksum) {
            return Ok(());
        }
        let problem = "this was made with other settings or data";
        Err(Error::data(path_of(out, figure).display(), problem)
            .with_hint("give another `--out`, or `--again` to replace the record"))
    }
}

pub(super) fn path_of(out: &Path, figure: Figure) -> PathBuf {
    out.join("records/figures").join(format!("{}.json", figure.name()))
}

/// The pixels of an image as text.
pub(super) fn hex(pixels: &[u8]) -> String {
    let digit = |n: u8| char::from_digit(u32::from(n), 16).unwrap_or('0');
    pixels.iter().flat_map(|&pixel| [digit(pixel >> 4), digit(pixel & 15)]).collect()
}

/// The pixels from text; invalid digits are black.
pub(super) fn from_hex(text: &str) -> Vec<u8> {
    let pair =
        |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
    text.as_bytes().chunks(2).map(|two| pair(two).unwrap_or(0)).collect()
}

/// Three decimals are more than a figure shows.
pub(super) fn rounded(points: Vec<[f64; 2]>) -> Vec<[f64; 2]> {
    points.into_iter().map(|point| point.map(|x| (x * 1e3).round() / 1e3)).collect()
}
