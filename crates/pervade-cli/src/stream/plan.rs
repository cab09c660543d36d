//! What a run reads and where it writes: one file or a folder, all rows or a share of them.

use std::path::{Path, PathBuf};

use clap::Args;
use pervade::data::{OutputFormat, PartKind, Parts};
use pervade::{Error, Result};

use crate::console::Console;
use crate::files::{Claim, Files, Kind};

/// Where the rows are written, and which.
#[derive(Args)]
pub(crate) struct OutArgs {
    /// A .csv, .npy or .parquet file; for a table in parts also a folder, which gets one file per part [default: CSV on
    /// stdout]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Format of the files in a folder: csv, parquet or npy [default: that of the parts]
    #[arg(long, value_name = "FORMAT", value_parser = ["csv", "parquet", "npy"])]
    format: Option<String>,
    /// Only the I-th of N shares, so that N machines divide the work: every N-th part, or of one Parquet or .npy file a
    /// range of rows
    #[arg(long, value_name = "I/N")]
    part: Option<String>,
}

/// Where the results go.
#[derive(Debug)]
pub(crate) enum Target {
    Stdout,
    File(PathBuf, OutputFormat),
    /// One file per part.
    Folder(PathBuf, OutputFormat),
}

/// One of several shares of the work, counted from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) index: usize,
    pub(crate) of: usize,
}

/// What is read and written.
pub(crate) struct Plan {
    pub(crate) target: Target,
    /// The parts, if the table is in parts.
    pub(crate) parts: Option<Parts>,
    pub(crate) share: Option<Share>,
}

impl OutArgs {
    /// The plan for the rows at `data`.
    pub(crate) fn plan(&self, data: &Path) -> Result<Plan> {
        let share = self.part.as_deref().map(parse_share).transpose()?;
        let parts = Parts::find(data)?;
        let format =
            self.format.as_deref().map(|name| OutputFormat::of(&Path::new("x").with_extension(name)));
        let format = format.transpose()?;
        let target = match (&self.out, &parts) {
            (Some(folder), Some(parts)) if is_folder(folder) => {
                Target::Folder(folder.clone(), format.unwrap_or(own_format(parts.kind())))
            }
            (Some(file), _) => Target::File(file.clone(), OutputFormat::of(file)?),
            (None, _) => Target::Stdout,
        };
        if let (Some(name), false) = (&self.format, matches!(target, Target::Folder(..))) {
            let must = "which is only for a table in parts whose results go to a folder";
            return Err(Error::setting("format", name, must).with_hint("a file has the format of its ending"));
        }
        Ok(Plan { target, parts, share })
    }
}

/// Whether the results go to a folder: there is one, or the name has no ending.
fn is_folder(out: &Path) -> bool {
    out.is_dir() || !out.exists() && out.extension().is_none()
}

fn own_format(kind: PartKind) -> OutputFormat {
    match kind {
        PartKind::Parquet => OutputFormat::Parquet,
        PartKind::Npy => OutputFormat::Npy,
        _ => OutputFormat::Csv,
    }
}

/// `2/8` is the second of eight shares.
fn parse_share(text: &str) -> Result<Share> {
    let numbers = text.split_once('/').map(|(index, of)| (index.trim().parse(), of.trim().parse()));
    match numbers {
        Some((Ok(index), Ok(of))) if (1..=of).contains(&index) => Ok(Share { index: index - 1, of }),
        _ => Err(Error::setting("part", format!("`{text}`"), "must be like 2/8, the second of eight shares")),
    }
}

impl Plan {
    /// The format of the results.
    pub(crate) fn format(&self) -> OutputFormat {
        match &self.target {
            Target::Stdout => OutputFormat::Csv,
            Target::File(_, format) | Target::Folder(_, format) => *format,
        }
    }

    /// The file or folder of the results, as typed.
    pub(crate) fn out(&self) -> Option<&Path> {
        match &self.target {
            Target::Stdout => None,
            Target::File(path, _) | Target::Folder(path, _) => Some(path),
        }
    }

    /// Checks all files of the command before it starts.
    pub(crate) fn claim(&self, files: Files, console: &Console) -> Result<Claim> {
        let files =
            self.parts.iter().flat_map(Parts::files).fold(files, |files, part| files.input("DATA", part));
        match &self.target {
            Target::Stdout => files.claim(console),
            Target::File(path, format) => files.output("--out", path, Kind::Table(*format)).claim(console),
            Target::Folder(folder, _) => {
                self.refuse_own_folder(folder)?;
                files.maybe_shared_folder("--out", Some(folder)).claim(console)
            }
        }
    }

    /// Results beside the parts would be taken for parts.
    fn refuse_own_folder(&self, folder: &Path) -> Result<()> {
        let here = |path: &Path| {
            std::fs::canonicalize(if path.as_os_str().is_empty() { Path::new(".") } else { path })
        };
        let of_part = |part: &PathBuf| part.parent().and_then(|parent| here(parent).ok());
        let parents: Vec<PathBuf> = self.parts.iter().flat_map(Parts::files).filter_map(of_part).collect();
        match here(folder) {
            Ok(folder) if parents.contains(&folder) => {
                Err(Error::setting("out", folder.display(), "which is the folder of the parts")
                    .with_hint("give another folder: results would be taken for parts"))
            }
            _ => Ok(()),
        }
    }

    /// The files to work on: the parts of this run's share, or the one file.
    pub(crate) fn sources(&self, data: &Path) -> Vec<PathBuf> {
        let Some(parts) = &self.parts else { return vec![data.to_path_buf()] };
        let Share { index, of } = self.share.unwrap_or(Share { index: 0, of: 1 });
        parts.files().iter().skip(index).step_by(of).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_typed_from_one() {
        assert_eq!(parse_share("1/1").unwrap(), Share { index: 0, of: 1 });
        assert_eq!(parse_share("3/8").unwrap(), Share { index: 2, of: 8 });
        for text in ["", "3", "0/2", "3/2", "a/b", "1/0", "-1/2", "1/2/3"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
    }
}
