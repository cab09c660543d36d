//! `fit --tensorboard`: curves of training while it runs, latents for the projector when it has ended. A fit is a run of its own in the
//! folder, and each restart a run below it; nothing that is there is changed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pervade::compute::Device;
use pervade::data::Table;
use pervade::train::Event;
use pervade::{Error, Fit, Result};
use pervade_export::tensorboard::{EventWriter, Projection, result, scalars};

use crate::console::Console;
use crate::layout::lay_out;
use crate::{outputs, words};

/// Rows in the projector; more make it slow.
const MAX_ROWS: usize = 10_000;
/// Runs with the same name.
const MAX_RUNS: usize = 100_000;

/// Writes the files of one run.
pub(crate) struct TensorBoard {
    folder: PathBuf,
    /// The model's name without its extension, the name of the run.
    name: String,
    restarts: usize,
    resume: bool,
    /// The folder of the run, once it is there.
    run: Option<PathBuf>,
    /// The current trial, if there are several.
    start: Option<usize>,
    files: BTreeMap<(usize, Option<usize>), EventWriter<BufWriter<File>>>,
}

impl TensorBoard {
    /// A run that is named after the model; the first event creates its folder.
    pub(crate) fn new(folder: &Path, model: &Path, restarts: usize, resume: bool) -> Self {
        // Never the name of the model itself, which may be written to the same folder.
        let name = match (model.file_stem(), model.extension()) {
            (Some(stem), Some(_)) => stem.to_string_lossy().into_owned(),
            _ => format!("{}-run", outputs::name_of(model)),
        };
        let (run, start, files) = (None, None, BTreeMap::new());
        Self { folder: folder.to_path_buf(), name, restarts, resume, run, start, files }
    }

    /// Adds the points of curves that the event has.
    pub(crate) fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        match event {
            Event::StartBegan { start, .. } => self.start = Some(*start),
            Event::StartChosen { .. } => self.start = None,
            _ => {}
        }
        let Some((restart, points)) = scalars(event) else { return Ok(()) };
        let key = (restart, self.start);
        if !self.files.contains_key(&key) {
            let file = new_file(&self.run_of(restart)?)?;
            self.files.insert(key, EventWriter::new(BufWriter::new(file), wall_time())?);
        }
        match self.files.get_mut(&key) {
            Some(file) => file.scalars(&points, wall_time()).and_then(|()| file.flush()),
            None => Ok(()),
        }
    }

    /// The folder of the run: a new one, or the last one of an interrupted fit that is resumed.
    fn run(&mut self) -> io::Result<PathBuf> {
        if let Some(run) = &self.run {
            return Ok(run.clone());
        }
        fs::create_dir_all(&self.folder)?;
        let numbered = |n: usize| match n {
            1 => self.folder.join(&self.name),
            n => self.folder.join(format!("{}-{n}", self.name)),
        };
        let first_free = (1..MAX_RUNS).find(|&n| fs::symlink_metadata(numbered(n)).is_err());
        let mut n = first_free.ok_or_else(|| io::Error::other("there are too many runs of this name"))?;
        let last = numbered(n.saturating_sub(1).max(1));
        let run = if self.resume && n > 1 && last.is_dir() {
            last
        } else {
            // Another fit may create the same folder meanwhile.
            while let Err(error) = fs::create_dir(numbered(n)) {
                if error.kind() != io::ErrorKind::AlreadyExists || n > MAX_RUNS {
                    return Err(error);
                }
                n += 1;
            }
            numbered(n)
        };
        self.run = Some(run.clone());
        Ok(run)
    }

    /// The folder of a restart, or of a trial of it.
    fn run_of(&mut self, restart: usize) -> io::Result<PathBuf> {
        let mut folder = self.run()?;
        match self.restarts {
            n if restart >= n => folder.push("final"),
            1 => {}
            _ => folder.push(format!("restart-{}", restart + 1)),
        }
        if let Some(start) = self.start {
            folder.push(format!("start-{}", start + 1));
        }
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Writes the files of the projector: latents, the map, and what is known about the rows.
    pub(crate) fn finish<D: Device>(
        mut self,
        fit: &Fit,
        table: &Table,
        device: &D,
        console: &Console,
    ) -> Result<()> {
        let run = self.run().map_err(|e| Error::io("create", &self.folder, e))?;
        let (model, data) = (&fit.model, &table.data);
        let (n, j) = (data.n_rows(), model.n_latents());
        let shown = n.min(MAX_ROWS);
        let rows: Vec<usize> = (0..shown).map(|i| (i as u128 * n as u128 / shown as u128) as usize).collect();
        let (all, found) = (model.embed(device, data)?, model.assign(device, data)?);
        let latents: Vec<f32> = rows.iter().flat_map(|&row| &all[row * j..(row + 1) * j]).copied().collect();
        let clusters: Vec<u32> = rows.iter().map(|&row| found.clusters[row]).collect();
        let points = lay_out(&latents, j, &clusters, console)?;
        let probability = |row: usize| {
            let k = found.n_clusters;
            found.probabilities[row * k..(row + 1) * k].iter().copied().fold(0.0, f32::max)
        };
        let column = |name: &str, cell: &dyn Fn(usize) -> String| {
            (name.to_string(), rows.iter().map(|&row| cell(row)).collect::<Vec<String>>())
        };
        let mut columns = vec![
            column("cluster", &|row| found.clusters[row].to_string()),
            column("probability", &|row| format!("{:.4}", probability(row))),
            column("row", &|row| (row + 1).to_string()),
        ];
        if let Some(labels) = &table.labels {
            columns.push(column("label", &|row| labels.names()[labels.ids()[row] as usize].clone()));
        }
        for (name, cells) in table.kept.iter().flat_map(|kept| kept.names.iter().zip(&kept.columns)) {
            columns.push(column(name, &|row| cells[row].clone()));
        }
        let projection = Projection { latents: &latents, n_latents: j, points: &points, columns };
        for file in projection.files() {
            outputs::text(&run.join(file.name), &file.text)?;
        }
        // Without an event file TensorBoard would not look for the others.
        let summary = || -> io::Result<()> {
            let mut file = EventWriter::new(BufWriter::new(new_file(&run)?), wall_time())?;
            file.scalars(&result(model.metadata()), wall_time())?;
            file.flush()
        };
        summary().map_err(|e| Error::io("write to", &run, e))?;
        let sample =
            if shown < n { format!(" ({} of the rows)", words::count(shown)) } else { String::new() };
        console.say(&format!(
            "curves and latents{sample} are in {}; look at them with `tensorboard --logdir {}`",
            run.display(),
            self.folder.display()
        ));
        Ok(())
    }
}

/// A new event file; TensorBoard reads all of a folder, in the order of their names.
fn new_file(folder: &Path) -> io::Result<File> {
    let seconds = wall_time() as u64;
    let mut n = 0;
    loop {
        let file = File::create_new(folder.join(format!("events.out.tfevents.{seconds}.{n}.pervade")));
        match file {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && n < MAX_RUNS => n += 1,
            file => return file,
        }
    }
}

/// Seconds since 1970.
fn wall_time() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
