//! The tables as pure functions of rows and records: Markdown as in the paper, CSV with one line per score.

use std::path::{Path, PathBuf};

use pervade::Result;

use super::record::Record;
use super::rows::{DataSet, Row, RowsFile, TableId, distinct};
use super::runs::VOTERS;
use crate::settings::short;
use crate::tables::aligned;
use crate::{outputs, words};

/// A table of the paper with the records of its rows.
pub(super) struct PaperTable {
    which: TableId,
    rows: RowsFile,
    /// One record per row.
    records: Vec<Option<Record>>,
}

impl PaperTable {
    /// Loads the records of the rows from `out`.
    pub(super) fn load(which: TableId, rows: RowsFile, out: &Path) -> Result<Self> {
        let record = |row: &Row| Record::load(&Record::path(out, which, row));
        let records = rows.rows.iter().map(record).collect::<Result<_>>()?;
        Ok(Self { which, rows, records })
    }

    /// Whether no row has a record.
    pub(super) fn is_empty(&self) -> bool {
        self.records.iter().all(Option::is_none)
    }

    /// The paths of a table's files: Markdown and CSV.
    pub(super) fn paths(which: TableId, out: &Path) -> [PathBuf; 2] {
        ["md", "csv"].map(|ending| out.join(format!("{}.{ending}", which.name())))
    }

    /// Writes both files; returns their paths.
    pub(super) fn write(&self, out: &Path) -> Result<[PathBuf; 2]> {
        let paths = Self::paths(self.which, out);
        outputs::text(&paths[0], &self.markdown())?;
        outputs::text(&paths[1], &self.csv())?;
        Ok(paths)
    }

    pub(super) fn markdown(&self) -> String {
        let lines = match self.which {
            TableId::Table1 => self.statistics(),
            TableId::Table2 => self.accuracies(),
            TableId::Table3 => self.errors(),
        };
        format!("{}\n\n{}{}", self.title(), aligned(&lines), self.notes())
    }

    fn title(&self) -> &'static str {
        match self.which {
            TableId::Table1 => "Table 1: the data sets.",
            TableId::Table2 => {
                "Table 2: clustering accuracy in percent. Ours: mean ± standard deviation over seeds, the best, and for VaDE \
                 what its own score without labels would keep, beside the paper's value, which is the run with the best objective of ten."
            }
            TableId::Table3 => {
                "Table 3: error in percent of a k-nearest-neighbour classifier on the latents of the test rows; mean ± \
                 standard deviation over seeds beside the paper's value."
            }
        }
    }

    /// Rows with their records.
    fn all(&self) -> impl Iterator<Item = (&Row, Option<&Record>)> {
        self.rows.rows.iter().zip(self.records.iter().map(Option::as_ref))
    }

    fn set(&self, name: &str) -> Option<&DataSet> {
        self.rows.sets.iter().find(|set| set.name == name)
    }

    /// Data sets with at least one record; all of them if there is no record.
    fn shown_sets(&self) -> Vec<&str> {
        let has_runs = |data: &&str| self.all().any(|(row, record)| row.data == **data && record.is_some());
        let all = distinct(self.rows.rows.iter().map(|row| row.data.as_str()));
        let shown: Vec<&str> = all.iter().copied().filter(has_runs).collect();
        if shown.is_empty() { all } else { shown }
    }

    fn statistics(&self) -> Vec<Vec<String>> {
        const NAMES: [&str; 3] = ["rows", "columns", "clusters"];
        let mut header = vec!["data set".to_string()];
        header.extend(NAMES.iter().flat_map(|name| [name.to_string(), "paper".to_string()]));
        let mut lines = vec![header];
        for (row, record) in self.all() {
            let mut line = vec![self.set(&row.data).map_or(row.data.clone(), DataSet::in_place_of)];
            for name in NAMES {
                let whole = |value: Option<f64>| value.map_or("-".to_string(), |n| words::count(n as usize));
                line.push(whole(record.and_then(|record| record.summary(name)).map(|summary| summary.mean)));
                line.push(whole(row.paper.get(name).copied()));
            }
            lines.push(line);
        }
        lines
    }

    fn accuracies(&self) -> Vec<Vec<String>> {
        let sets = self.shown_sets();
        let mut header = vec!["method".to_string()];
        for name in &sets {
            header.push(self.set(name).map_or((*name).to_string(), |set| set.title.clone()));
            let paper = self.set(name).and_then(|set| set.stands_for.as_ref());
            header.push(paper.map_or("paper".to_string(), |paper| format!("paper: {paper}")));
        }
        let mut lines = vec![header];
        for method in distinct(self.rows.rows.iter().map(|row| row.method.as_str())) {
            let mut line = vec![method.to_string()];
            for data in &sets {
                let found = self.all().find(|(row, _)| row.data == *data && row.method == method);
                line.push(found.and_then(|(_, record)| record).map_or("-".to_string(), accuracy_cell));
                let paper = found.and_then(|(row, _)| row.paper.get("accuracy"));
                line.push(paper.map_or("-".to_string(), |value| format!("{value:.2}")));
            }
            lines.push(line);
        }
        lines
    }

    fn errors(&self) -> Vec<Vec<String>> {
        let several = distinct(self.rows.rows.iter().map(|row| row.data.as_str())).len() > 1;
        let mut header = vec!["method".to_string()];
        header.extend(VOTERS.iter().flat_map(|k| [format!("k = {k}"), "paper".to_string()]));
        header.extend(["seeds".to_string(), "seconds".to_string()]);
        let mut lines = vec![header];
        for (row, record) in self.all() {
            let of = if several { format!(", {}", row.data) } else { String::new() };
            let mut line = vec![format!("{}{of}{}", row.method, mark(record))];
            for k in VOTERS.map(|k| format!("k{k}")) {
                let ours = record.and_then(|record| record.summary(&k));
                line.push(ours.map_or("-".to_string(), |summary| summary.words(2, 100.0)));
                line.push(row.paper.get(&k).map_or("-".to_string(), |value| format!("{value:.2}")));
            }
            line.push(record.map_or("-".to_string(), |record| record.runs.len().to_string()));
            let seconds = record.and_then(Record::seconds);
            line.push(seconds.map_or("-".to_string(), |summary| format!("{:.1}", summary.mean)));
            lines.push(line);
        }
        lines
    }

    /// Notes on stand-ins, rows that were not run or stopped, and rows with other settings.
    fn notes(&self) -> String {
        let mut notes = Vec::new();
        let shown = self.shown_sets();
        for set in self.rows.sets.iter().filter(|set| shown.contains(&set.name.as_str())) {
            if let Some(paper) = &set.stands_for {
                let note = set.note.as_ref().map_or(String::new(), |note| format!(": {note}"));
                notes.push(format!("{} stands for the paper's {paper}{note}.", set.title));
            }
        }
        let left: Vec<&str> = self.rows.sets.iter().map(|set| set.name.as_str()).collect();
        let named =
            |name: &&str| self.rows.rows.iter().any(|row| row.data == **name) && !shown.contains(name);
        let left: Vec<&str> = left.into_iter().filter(named).collect();
        if !left.is_empty() {
            notes.push(format!("Not run, for want of data or time: {}.", left.join(", ")));
        }
        let ran = || {
            self.all().filter_map(|(row, record)| Some((format!("{} on {}", row.method, row.data), record?)))
        };
        let mut looks: Vec<(String, Vec<String>)> = Vec::new();
        for (name, record) in ran().filter(|(_, record)| !record.overrides.is_empty()) {
            let each = record.overrides.iter().map(|(key, value)| format!("{key} {}", short(value)));
            let look = each.collect::<Vec<String>>().join(", ");
            match looks.iter_mut().find(|(other, _)| *other == look) {
                Some((_, names)) => names.push(name),
                None => looks.push((look, vec![name])),
            }
        }
        notes.extend(
            looks.iter().map(|(look, names)| format!("† A quick look with {look}: {}.", names.join(", "))),
        );
        for (name, record) in ran() {
            if let Some(problem) = &record.problem {
                let runs = words::counted(record.runs.len(), "seed");
                notes.push(format!("\\* {name} stopped after {runs}: {problem}"));
            }
        }
        notes.iter().fold(String::new(), |text, note| text + "\n" + note + "\n")
    }

    /// One line per row and score; empty cells for missing values.
    pub(super) fn csv(&self) -> String {
        let mut text = String::from(
            "table,data,stands_for,method,score,mean,sd,best,chosen,seeds,paper,where,seconds,device,version,problem\n",
        );
        let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        for (row, record) in self.all() {
            let set = self.set(&row.data);
            for score in self.scores() {
                // Errors and accuracies are in percent, in the paper and here.
                let scale = if self.which == TableId::Table1 || score == "nmi" || score == "ari" {
                    1.0
                } else {
                    100.0
                };
                let summary = record.and_then(|record| record.summary(score));
                // The best error is the smallest.
                let least = self.which == TableId::Table3;
                let best = record.and_then(|record| extreme(record, score, least));
                let chosen = record.and_then(Record::chosen).and_then(|(_, run)| run.scores.get(score));
                let last = record.and_then(|record| record.runs.last());
                let cells = [
                    self.which.name().to_string(),
                    row.data.clone(),
                    set.and_then(|set| set.stands_for.clone()).unwrap_or_default(),
                    row.method.clone(),
                    score.to_string(),
                    number(summary.as_ref().map(|s| scale * s.mean)),
                    number(summary.as_ref().and_then(|s| s.sd).map(|sd| scale * sd)),
                    number(best.map(|best| scale * best)),
                    number(chosen.map(|chosen| scale * chosen)),
                    record.map_or(0, |record| record.runs.len()).to_string(),
                    number(row.paper.get(score).copied()),
                    row.stands_at.clone().unwrap_or_default(),
                    number(record.and_then(Record::seconds).map(|s| s.mean)),
                    last.map_or(String::new(), |run| run.device.clone()),
                    last.map_or(String::new(), |run| run.version.clone()),
                    record.and_then(|record| record.problem.clone()).unwrap_or_default(),
                ];
                text.push_str(&cells.map(|cell| quoted(&cell)).join(","));
                text.push('\n');
            }
        }
        text
    }

    fn scores(&self) -> [&'static str; 3] {
        match self.which {
            TableId::Table1 => ["rows", "columns", "clusters"],
            TableId::Table2 => ["accuracy", "nmi", "ari"],
            TableId::Table3 => ["k3", "k5", "k10"],
        }
    }
}

/// `82.01 ± 5.36 (best 94.20, by elbo 85.15; 10 seeds, 21.7 s each)`.
fn accuracy_cell(record: &Record) -> String {
    let Some(summary) = record.summary("accuracy") else { return format!("-{}", mark(Some(record))) };
    let seconds = record.seconds().map_or(0.0, |seconds| seconds.mean);
    let seeds = words::counted(record.runs.len(), "seed");
    let chosen = record.chosen().and_then(|(by, run)| Some((by, run.scores.get("accuracy")?)));
    let chosen = chosen.map_or(String::new(), |(by, score)| format!(", by {by} {:.2}", 100.0 * score));
    format!(
        "{} (best {:.2}{chosen}; {seeds}, {seconds:.1} s each){}",
        summary.words(2, 100.0),
        100.0 * summary.best,
        mark(Some(record))
    )
}

/// Marks that refer to the notes.
fn mark(record: Option<&Record>) -> String {
    let look = record.is_some_and(|record| !record.overrides.is_empty());
    let stopped = record.is_some_and(|record| record.problem.is_some());
    [(look, " †"), (stopped, " *")].iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect()
}

fn extreme(record: &Record, score: &str, least: bool) -> Option<f64> {
    let values = record.runs.iter().filter_map(|run| run.scores.get(score).copied());
    values.reduce(|a, b| if least { a.min(b) } else { a.max(b) })
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Map, json};

    use super::super::record::SeedRun;
    use super::*;

    /// Two data sets, the second without its file; one method that ran and one that failed.
    const ROWS: &str = r#"
data = [
    { name = "a", title = "Set A", path = "a", clusters = 2, stands_for = "THE A", note = "smaller" },
    { name = "b", title = "Set B", path = "b", clusters = 2 },
]
row = [
    { data = "a", method = "gmm", seeds = 2, paper = { accuracy = 50.5 }, where = "table 2, A" },
    { data = "a", method = "dec", seeds = 2 },
    { data = "b", method = "gmm", seeds = 2 },
]
"#;

    fn record(method: &str, accuracies: &[f64], problem: Option<&str>) -> Record {
        let run = |(seed, &accuracy): (usize, &f64)| SeedRun {
            seed: seed as u64,
            scores: BTreeMap::from([("accuracy".to_string(), accuracy), ("nmi".to_string(), 0.5)]),
            seconds: 1.5,
            side_by_side: 1,
            device: "CPU, 2 threads".to_string(),
            version: "0.1.0".to_string(),
        };
        let overrides =
            if problem.is_some() { Map::from_iter([("take".to_string(), json!(9))]) } else { Map::new() };
        Record {
            table: TableId::Table2,
            data: "a".to_string(),
            method: method.to_string(),
            rows: 10,
            columns: 2,
            data_checksum: String::new(),
            settings: Map::new(),
            overrides,
            runs: accuracies.iter().enumerate().map(run).collect(),
            problem: problem.map(String::from),
        }
    }

    #[test]
    fn tables_depend_only_on_rows_and_records() {
        let rows: RowsFile = toml::from_str(ROWS).unwrap();
        let records = vec![
            Some(record("gmm", &[0.5, 0.6], None)),
            Some(record("dec", &[], Some("a \"bad\" day"))),
            None,
        ];
        let table = PaperTable { which: TableId::Table2, rows, records };
        let (_, markdown) =
            table.markdown().split_once("\n\n").map(|(a, b)| (a.to_string(), b.to_string())).unwrap();
        assert_eq!(
            markdown,
            "\
| method |                                          Set A | paper: THE A |
| ------ | ---------------------------------------------: | -----------: |
| gmm    | 55.00 ± 7.07 (best 60.00; 2 seeds, 1.5 s each) |        50.50 |
| dec    |                                          - † * |            - |

Set A stands for the paper's THE A: smaller.

Not run, for want of data or time: b.

† A quick look with take 9: dec on a.

\\* dec on a stopped after 0 seeds: a \"bad\" day
"
        );
        let csv = table.csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 10);
        assert!(lines[1].starts_with("table2,a,THE A,gmm,accuracy,55"), "{csv}");
        assert!(lines[1].ends_with(",60,,2,50.5,\"table 2, A\",1.5,\"CPU, 2 threads\",0.1.0,"), "{csv}");
        assert_eq!(lines[4], "table2,a,THE A,dec,accuracy,,,,,0,,,,,,\"a \"\"bad\"\" day\"");
        assert_eq!(lines[7], "table2,b,,gmm,accuracy,,,,,0,,,,,,");
    }
}
