//! Commands that work on rows one after the other: the table is read, and the results are written, in pieces, so that
//! memory does not grow with the number of rows.

mod folder;
mod plan;
mod progress;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pervade::data::{
    FilledTable, OutputFormat, OutputTable, Parts, Pieces, ReadOptions, Table, TableWriter, TextTypes,
};
use pervade::files::write_atomically_with;
use pervade::memory::{Need, product, require};
use pervade::model::{Matched, Vade};
use pervade::{Error, Hint, Result};
use serde_json::{Map, Value};

use crate::args::{ModelAndData, say_labels};
use crate::commands::for_model;
use crate::console::Console;
use crate::words;
use folder::PartFolder;
pub(crate) use plan::{OutArgs, Plan, Target};
pub(crate) use progress::RowProgress;

/// Notes about cells that are printed at most.
const MAX_NOTES: usize = 20;

/// What a command does with each piece of a table.
pub(crate) trait Work {
    /// Computes the results of the rows and writes them.
    fn write(&mut self, piece: &Table, out: &mut Sink<'_>) -> Result<()>;

    /// Whether all rows of a file must be [looked at](Work::look) before the first are written in this format.
    fn looks_first(&self, _format: OutputFormat) -> bool {
        false
    }

    /// Looks at rows that will be written.
    fn look(&mut self, _piece: &Table) -> Result<()> {
        Ok(())
    }

    /// Is called before the rows of another file.
    fn begin(&mut self) {}

    /// Numbers of each row that are kept in memory, for JSON on stdout.
    fn n_kept(&self) -> usize {
        0
    }
}

/// Where the results of pieces go.
pub(crate) struct Sink<'w> {
    /// None if they are only counted.
    writer: Option<TableWriter<&'w mut (dyn Write + Send)>>,
    path: &'w Path,
}

impl Sink<'_> {
    /// Appends a table.
    pub(crate) fn add(&mut self, table: &OutputTable<'_>) -> Result<()> {
        let added = self.writer.as_mut().map_or(Ok(()), |writer| writer.add(table));
        added.map_err(|e| Error::io("write", self.path, e))
    }

    /// Appends a table whose gaps were filled.
    pub(crate) fn add_filled(&mut self, table: &FilledTable<'_>, types: &TextTypes) -> Result<()> {
        let added = self.writer.as_mut().map_or(Ok(()), |writer| table.add_to(writer, types));
        added.map_err(|e| Error::io("write", self.path, e))
    }

    fn finish(self) -> Result<()> {
        self.writer.map_or(Ok(()), TableWriter::finish).map_err(|e| Error::io("write", self.path, e))
    }
}

/// A command on the rows of a table.
pub(crate) struct Job<'a> {
    /// The command, for progress and for the folder of its results.
    pub(crate) command: &'static str,
    pub(crate) both: &'a ModelAndData,
    pub(crate) model: &'a Vade,
    pub(crate) plan: &'a Plan,
    pub(crate) console: &'a Console,
    /// Whether every cell is also kept as it is written.
    pub(crate) original: bool,
    /// Whether results depend on the number of the row in the whole table.
    pub(crate) numbers_rows: bool,
    /// Flags that change the results.
    pub(crate) flags: Map<String, Value>,
}

/// How much was done.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Done {
    pub(crate) rows: usize,
    /// Files that were written, if the table is in parts.
    pub(crate) parts: usize,
    /// Parts whose results were already there.
    pub(crate) skipped: usize,
}

impl Job<'_> {
    /// Works on all rows, or on this run's share of them.
    pub(crate) fn run(&self, work: &mut dyn Work) -> Result<Done> {
        let run = Running::new(self)?;
        let sources = self.plan.sources(&self.both.data);
        match &self.plan.target {
            Target::Folder(folder, format) => return run.write_parts(folder, *format, work),
            _ if sources.is_empty() => {}
            Target::File(path, format) => {
                write_atomically_with(path, |out| {
                    run.write_rows(&sources, Some((out, *format)), path, work)
                })?;
            }
            Target::Stdout if self.console.json => run.write_rows(&sources, None, Path::new(""), work)?,
            Target::Stdout => {
                let path = Path::new("standard output");
                let mut out = io::BufWriter::new(io::stdout());
                run.write_rows(&sources, Some((&mut out, OutputFormat::Csv)), path, work)?;
                out.flush().map_err(|e| Error::io("write", path, e))?;
            }
        }
        let parts = if self.plan.parts.is_some() { sources.len() } else { 0 };
        if sources.is_empty() {
            self.console.say("there are fewer parts than runs: nothing is left for this one");
        }
        Ok(Done { rows: run.progress.rows(), parts, skipped: 0 })
    }
}

/// A job that is under way.
struct Running<'a> {
    job: &'a Job<'a>,
    options: ReadOptions,
    progress: RowProgress<'a>,
    /// For each part the rows of those before it, if results depend on them.
    rows_before: BTreeMap<PathBuf, usize>,
    notes: Cell<usize>,
    is_reordered: Cell<bool>,
}

impl<'a> Running<'a> {
    fn new(job: &'a Job<'a>) -> Result<Self> {
        let options = job.both.read.options_with(job.both.read.options()?.with(|o| {
            for_model(job.model, o);
            o.original = job.original;
        }))?;
        let progress = RowProgress::new(job.command, job.console);
        let (mut rows_before, mut n) = (BTreeMap::new(), 0);
        for part in job.plan.parts.iter().flat_map(Parts::files).filter(|_| job.numbers_rows) {
            rows_before.insert(part.clone(), n);
            n += Pieces::open(part, &options)?.count_rows()?;
        }
        let (notes, is_reordered) = (Cell::new(0), Cell::new(false));
        Ok(Self { job, options, progress, rows_before, notes, is_reordered })
    }

    fn open(&self, source: &Path) -> Result<Pieces> {
        let pieces = Pieces::open(source, &self.options)?;
        match &self.job.plan.share {
            Some(share) if self.job.plan.parts.is_none() => pieces.share(share.index, share.of),
            _ => Ok(pieces),
        }
    }

    /// Writes one file per part.
    fn write_parts(&self, folder: &Path, format: OutputFormat, work: &mut dyn Work) -> Result<Done> {
        let sources = self.job.plan.sources(&self.job.both.data);
        let all = self.job.plan.parts.as_ref().map_or(&[][..], |parts| parts.files());
        let folder = PartFolder::open(folder, format, self.job, all)?;
        let mut done = Done::default();
        for source in &sources {
            let Some(target) = folder.begin(source)? else {
                done.skipped += 1;
                continue;
            };
            let one = std::slice::from_ref(source);
            write_atomically_with(&target.path, |out| {
                self.write_rows(one, Some((out, format)), &target.path, work)
            })?;
            done.parts += 1;
        }
        if done.skipped > 0 {
            let (skipped, were) =
                (words::counted(done.skipped, "part"), if done.skipped == 1 { "was" } else { "were" });
            self.job.console.say(&format!("{skipped} {were} already there, from an earlier run"));
        }
        Ok(Done { rows: self.progress.rows(), ..done })
    }

    /// Writes the rows of some files as one table.
    fn write_rows<'w>(
        &self,
        sources: &[PathBuf],
        out: Option<(&'w mut (dyn Write + Send), OutputFormat)>,
        path: &'w Path,
        work: &mut dyn Work,
    ) -> Result<()> {
        let Some((first, others)) = sources.split_first() else { return Ok(()) };
        let mut pieces = self.open(first)?;
        work.begin();
        if pieces.n_rows() == Some(0) && self.job.plan.share.is_some() {
            self.job.console.say("there are fewer rows than runs: nothing is left for this one");
        }
        let need = Need::of(
            "the results",
            product(&[pieces.n_rows().unwrap_or(0), work.n_kept(), size_of::<f32>()]),
        );
        require(
            "JSON on stdout",
            &need,
            Hint::new("take fewer rows at a time, or write them to a file with ").setting("out"),
        )?;
        let format = out.as_ref().map(|(_, format)| *format);
        let n_rows = match format {
            Some(OutputFormat::Npy) => self.count(&pieces, others)?,
            _ => pieces.n_rows().filter(|_| others.is_empty()).unwrap_or(0),
        };
        if format.is_some_and(|format| work.looks_first(format)) {
            self.look(&mut pieces, sources, work)?;
            pieces.rewind()?;
        }
        let writer = out.map(|(out, format)| TableWriter::new(out, format, n_rows)).transpose();
        let mut sink = Sink { writer: writer.map_err(|e| Error::io("write", path, e))?, path };
        self.progress.expect(n_rows);
        self.each_piece(&mut pieces, first, &mut |piece| {
            work.write(piece, &mut sink)?;
            self.progress.add(piece.data.n_rows());
            Ok(())
        })?;
        for source in others {
            self.each_piece(&mut self.open(source)?, source, &mut |piece| {
                work.write(piece, &mut sink)?;
                self.progress.add(piece.data.n_rows());
                Ok(())
            })?;
        }
        sink.finish()
    }

    /// Rows of all files.
    fn count(&self, first: &Pieces, others: &[PathBuf]) -> Result<usize> {
        let others = others.iter().map(|source| self.open(source)?.count_rows()).sum::<Result<usize>>()?;
        Ok(first.count_rows()? + others)
    }

    fn look(&self, first: &mut Pieces, sources: &[PathBuf], work: &mut dyn Work) -> Result<()> {
        let (source, others) = (&sources[0], &sources[1..]);
        self.each_piece(first, source, &mut |piece| work.look(piece))?;
        for source in others {
            self.each_piece(&mut self.open(source)?, source, &mut |piece| work.look(piece))?;
        }
        Ok(())
    }

    fn each_piece(
        &self,
        pieces: &mut Pieces,
        source: &Path,
        each: &mut dyn FnMut(&Table) -> Result<()>,
    ) -> Result<()> {
        let mut first_row = 0;
        while let Some(mut table) = pieces.next_piece()? {
            let n_rows = table.data.n_rows();
            if let Some(n_before) = self.rows_before.get(source) {
                table.data = table.data.with_first_row(n_before + first_row);
            }
            self.say_notes(&table, first_row);
            let table = self.job.both.read.with_image(table)?;
            if first_row == 0 {
                say_labels(&table, source, self.job.console);
            }
            each(&self.matched(table)?)?;
            first_row += n_rows;
        }
        Ok(())
    }

    /// The table with the columns of the model. The model would match them itself; doing it here prints a note, and rejects
    /// other columns before any work.
    fn matched(&self, mut table: Table) -> Result<Table> {
        let reordered = match self.job.model.matched(&table.data)? {
            Matched::AsGiven(_) => None,
            Matched::Reordered(data) => Some(data),
        };
        if let Some(data) = reordered {
            if !self.is_reordered.replace(true) {
                self.job.console.say("note: columns were matched by name");
            }
            table.data = data;
        }
        Ok(table)
    }

    /// Prints what is to be said about cells; of pieces after the first, from which row on.
    fn say_notes(&self, table: &Table, first_row: usize) {
        for note in &table.notes {
            let n = self.notes.get();
            self.notes.set(n + 1);
            let from = match first_row {
                0 => String::new(),
                row => format!("from row {} on: ", words::count(row + 1)),
            };
            match n {
                0..MAX_NOTES => self.job.console.say(&format!("note: {from}{note}")),
                MAX_NOTES => self.job.console.say("note: more notes of this kind are not printed"),
                _ => {}
            }
        }
    }
}
