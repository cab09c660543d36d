//! Checks all files of a command before any work: no output is an input, no two outputs are the same file, no file of
//! another kind is overwritten, and no other run is writing the same files.

use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use pervade::data::OutputFormat;
use pervade::files::{Lock, check_writable, resolve};
use pervade::{Error, Result};

use crate::console::Console;

/// The kind of a file, as far as its first bytes tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A fitted model.
    Model,
    /// The checkpoint of a run.
    Checkpoint,
    /// A table of results.
    Table(OutputFormat),
    /// An image.
    Png,
    /// A drawing.
    Svg,
    /// A page of a report.
    Html,
    /// A graph for other tools.
    Onnx,
    /// A model card.
    Card,
    /// One JSON object, or one per line.
    Json,
    /// Names of clusters, which are read and written again.
    Names,
    /// Text for people.
    Text,
}

impl Kind {
    /// The kind of table for the extension of `path`.
    pub(crate) fn table(path: &Path) -> Result<Self> {
        OutputFormat::of(path).map(Kind::Table)
    }

    /// The kind of picture for the extension of `path`; none if it is another file.
    pub(crate) fn picture(path: &Path) -> Option<Self> {
        match path.extension()?.to_string_lossy().to_ascii_lowercase().as_str() {
            "png" => Some(Kind::Png),
            "svg" => Some(Kind::Svg),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Model => "a pervade model",
            Kind::Checkpoint => "a checkpoint of pervade",
            Kind::Table(OutputFormat::Npy) => "a .npy file",
            Kind::Table(OutputFormat::Parquet) => "a Parquet file",
            Kind::Table(_) => "a CSV file",
            Kind::Png => "a PNG picture",
            Kind::Svg => "an SVG picture",
            Kind::Html => "an HTML page",
            Kind::Onnx => "an ONNX file",
            Kind::Card => "a card of a pervade model",
            Kind::Json => "JSON",
            Kind::Names => "a file of cluster names",
            Kind::Text => "text",
        }
    }

    /// Whether a file that starts with these bytes is of this kind.
    fn begins(self, head: &[u8]) -> bool {
        let holds = |word: &[u8]| head.windows(word.len()).any(|bytes| bytes == word);
        match self {
            Kind::Model => holds(b"__metadata__") && holds(b"pervade-model-"),
            Kind::Checkpoint => holds(b"__metadata__") && holds(b"pervade-checkpoint-"),
            Kind::Table(OutputFormat::Npy) => head.starts_with(b"\x93NUMPY"),
            Kind::Table(OutputFormat::Parquet) => head.starts_with(b"PAR1"),
            Kind::Png => head.starts_with(b"\x89PNG"),
            Kind::Svg => holds(b"<svg"),
            Kind::Html => head.to_ascii_lowercase().trim_ascii_start().starts_with(b"<!doctype html"),
            // The version of the format, then the name of the program that wrote it.
            Kind::Onnx => matches!(head, [0x08, 1..=0x7f, 0x12, ..]),
            Kind::Card => head.starts_with(b"---\n") && holds(b"library_name: pervade"),
            Kind::Json | Kind::Names => head.trim_ascii_start().starts_with(b"{"),
            Kind::Table(_) | Kind::Text => !head.contains(&0),
        }
    }
}

/// Bytes of an existing file that are inspected.
const HEAD: u64 = 1 << 12;
/// How often the folder of a checkpoint is created again after another run has removed it.
const MAX_TRIES: usize = 100;

/// A file as the user named it.
struct Named {
    /// The argument or flag: `DATA`, `--out`.
    argument: &'static str,
    path: PathBuf,
}

/// The inputs and outputs of a command.
#[derive(Default)]
pub(crate) struct Files {
    inputs: Vec<Named>,
    outputs: Vec<(Named, Kind)>,
    folders: Vec<PathBuf>,
    /// Folders of other tools, to which runs add files.
    shared: Vec<Named>,
    force: bool,
}

impl Files {
    /// Starts without files; `force` allows overwriting files of another kind.
    pub(crate) fn new(force: bool) -> Self {
        Self { force, ..Self::default() }
    }

    /// Adds a file or folder that is read.
    pub(crate) fn input(mut self, argument: &'static str, path: &Path) -> Self {
        self.inputs.push(Named { argument, path: path.to_path_buf() });
        self
    }

    /// Adds a file that is read, if any.
    pub(crate) fn maybe_input(self, argument: &'static str, path: Option<&Path>) -> Self {
        match path {
            Some(path) => self.input(argument, path),
            None => self,
        }
    }

    /// Adds a file that is written.
    pub(crate) fn output(mut self, argument: &'static str, path: &Path, kind: Kind) -> Self {
        self.outputs.push((Named { argument, path: path.to_path_buf() }, kind));
        self
    }

    /// Adds a file that is written, if any.
    pub(crate) fn maybe_output(self, argument: &'static str, path: Option<&Path>, kind: Kind) -> Self {
        match path {
            Some(path) => self.output(argument, path, kind),
            None => self,
        }
    }

    /// Adds a folder in which many files are written.
    pub(crate) fn folder(mut self, path: &Path) -> Self {
        self.folders.push(path.to_path_buf());
        self
    }

    /// Adds a folder to which files with new names are added, if any; nothing that is there changes.
    pub(crate) fn maybe_shared_folder(mut self, argument: &'static str, path: Option<&Path>) -> Self {
        self.shared.extend(path.map(|path| Named { argument, path: path.to_path_buf() }));
        self
    }

    /// Checks everything and takes the locks, which are held until the result is dropped. Call it before any work.
    pub(crate) fn claim(self, console: &Console) -> Result<Claim> {
        self.refuse_same_files()?;
        self.shared.iter().try_for_each(|folder| self.check_shared(folder))?;
        let mut claim = Claim::default();
        let (checkpoints, others): (Vec<_>, Vec<_>) =
            self.outputs.iter().partition(|(_, kind)| *kind == Kind::Checkpoint);
        for (output, kind) in others {
            check_writable(&output.path)?;
            self.check_kind(output, *kind, console)?;
            if !is_stream(&output.path) {
                claim.locks.extend(Lock::take(&output.path, &holder())?);
            }
        }
        // Last, because a rejected run removes the folder that it created, which another run may have found.
        for (output, _) in checkpoints {
            self.claim_checkpoint(output, &mut claim, console)?;
        }
        for folder in &self.folders {
            claim.locks.extend(Lock::take(folder, &holder())?);
        }
        Ok(claim)
    }

    /// Until it holds the lock, the folder of a checkpoint may be removed by the run that created it.
    fn claim_checkpoint(&self, output: &Named, claim: &mut Claim, console: &Console) -> Result<()> {
        let mut tries_left = MAX_TRIES;
        loop {
            if let Some(folder) = output.path.parent() {
                claim.make_folder(folder)?;
            }
            let taken = check_writable(&output.path)
                .and_then(|()| self.check_kind(output, Kind::Checkpoint, console))
                .and_then(|()| Lock::take(&output.path, &holder()));
            match taken {
                Err(Error::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && tries_left > 0 =>
                {
                    tries_left -= 1;
                }
                taken => {
                    claim.locks.extend(taken?);
                    return Ok(());
                }
            }
        }
    }

    fn refuse_same_files(&self) -> Result<()> {
        for (index, (output, kind)) in self.outputs.iter().enumerate() {
            let others = self.outputs[..index].iter().map(|(other, _)| other);
            for other in self.inputs.iter().chain(others) {
                let folder = output.path.parent().filter(|_| *kind == Kind::Checkpoint);
                if is_same(&output.path, &other.path)
                    || folder.is_some_and(|folder| is_same(folder, &other.path))
                {
                    return Err(output.same_as(other));
                }
            }
        }
        // `assign MODEL DATA >> DATA`: the shell has already opened it, but nothing is written to it yet.
        let stdout = Path::new("/dev/stdout");
        match self.inputs.iter().find(|input| stdout.is_file() && is_same(stdout, &input.path)) {
            Some(input) => {
                Err(Named { argument: "standard output", path: input.path.clone() }.same_as(input))
            }
            None => Ok(()),
        }
    }

    /// Returns an error if a folder for more files is one of the other files, lies in a folder of data, or cannot be written to.
    fn check_shared(&self, folder: &Named) -> Result<()> {
        let outputs = self.outputs.iter().map(|(output, kind)| match kind {
            Kind::Checkpoint => (output, output.path.parent().unwrap_or(&output.path)),
            _ => (output, output.path.as_path()),
        });
        for (other, path) in self.inputs.iter().map(|input| (input, input.path.as_path())).chain(outputs) {
            let is_inside = path.is_dir()
                && real_path(&folder.path)
                    .zip(fs::canonicalize(path).ok())
                    .is_some_and(|(a, b)| a.starts_with(b));
            if is_same(&folder.path, path) || is_inside {
                return Err(folder.same_as(other));
            }
        }
        if fs::symlink_metadata(&folder.path).is_ok() && !folder.path.is_dir() {
            let argument = folder.argument.trim_start_matches('-');
            return Err(Error::setting(argument, folder.path.display(), "must be a folder"));
        }
        // The first folder that exists: the others can be created there.
        let here = Path::new(".");
        let named = folder.path.ancestors().map(|path| if path.as_os_str().is_empty() { here } else { path });
        let existing = named.into_iter().find(|path| fs::symlink_metadata(path).is_ok()).unwrap_or(here);
        if existing.is_dir() {
            let probe = tempfile::Builder::new().prefix(".pervade-").tempfile_in(existing);
            // Without the name of the file, which the user does not know.
            let plain = |e: io::Error| io::Error::from(e.kind());
            return probe.map(drop).map_err(|e| Error::io("write to", existing, plain(e)));
        }
        Err(Error::io("create", &folder.path, io::Error::from(io::ErrorKind::NotADirectory)))
    }

    /// Returns an error if a file of another kind would be overwritten; prints what will be replaced.
    fn check_kind(&self, output: &Named, kind: Kind, console: &Console) -> Result<()> {
        let path = &output.path;
        if !path.is_file() || is_stream(path) {
            return Ok(());
        }
        let mut head = Vec::new();
        fs::File::open(path)
            .and_then(|file| file.take(HEAD).read_to_end(&mut head))
            .map_err(|e| Error::io("read", path, e))?;
        if !head.is_empty() && !kind.begins(&head) {
            // Files in a folder of data are data: not even `--force` overwrites them.
            if let Some(input) = self.inputs.iter().find(|input| lies_in(path, &input.path)) {
                return Err(output.same_as(input));
            }
            if !self.force {
                let must = format!("which exists and is not {}", kind.name());
                return Err(Error::setting(output.argument.trim_start_matches('-'), path.display(), must)
                    .with_hint("choose another name, or overwrite the file with `--force`"));
            }
        }
        if !matches!(kind, Kind::Checkpoint | Kind::Names) {
            console.say(&format!("note: {} exists and will be replaced", path.display()));
        }
        Ok(())
    }
}

/// Locks on the outputs of a command, released when dropped.
#[derive(Default)]
pub(crate) struct Claim {
    locks: Vec<Lock>,
    /// Folders of checkpoints, removed if they are empty.
    folders: Vec<PathBuf>,
}

impl Claim {
    /// Creates the folder of a checkpoint, which is removed again if it stays empty.
    fn make_folder(&mut self, folder: &Path) -> Result<()> {
        let real = resolve(folder).map_err(|e| Error::io("create", folder, e))?;
        fs::create_dir_all(real).map_err(|e| Error::io("create", folder, e))?;
        self.folders.push(folder.to_path_buf());
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.locks.clear();
        for folder in &self.folders {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// A description of this run for others that want the same files.
pub(crate) fn holder() -> String {
    let command: Vec<String> =
        std::env::args_os().skip(1).take(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    format!("process {} (pervade {})", std::process::id(), command.join(" "))
}

/// Pipes and devices can be shared, and hold nothing that could be lost.
fn is_stream(path: &Path) -> bool {
    let is_special = |about: fs::Metadata| !about.is_dir() && (!about.is_file() || path.starts_with("/proc"));
    fs::metadata(path).is_ok_and(is_special)
}

impl Named {
    /// The error that this output is, or lies in, that input or other output.
    fn same_as(&self, other: &Named) -> Error {
        let relation = if other.path.is_dir() { "lies in" } else { "is the same file as" };
        let must = format!("which {relation} {} ({})", other.argument, other.path.display());
        Error::setting(self.argument.trim_start_matches('-'), self.path.display(), must)
            .with_hint("nothing was changed; give the output another name")
    }
}

/// Whether two paths refer to the same file or folder: by identity if both exist, otherwise by resolved path.
fn is_same(one: &Path, other: &Path) -> bool {
    if is_stream(one) || is_stream(other) {
        return false;
    }
    match (identity(one), identity(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => real_path(one).is_some() && real_path(one) == real_path(other),
        _ => false,
    }
}

/// Whether an existing file lies in the folder or below it.
fn lies_in(path: &Path, folder: &Path) -> bool {
    match (fs::canonicalize(path), fs::canonicalize(folder)) {
        (Ok(path), Ok(folder)) => path.starts_with(folder),
        _ => false,
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|about| (about.dev(), about.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

/// The resolved path of a file that does not exist yet.
fn real_path(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(resolve(path).ok()?).ok()?;
    // Without links, `..` is the parent folder.
    Some(path.components().fold(PathBuf::new(), |mut real, part| {
        match part {
            Component::ParentDir => drop(real.pop()),
            part => real.push(part),
        }
        real
    }))
}
