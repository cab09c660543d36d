//! The table of a comparison: mean and deviation over seeds, as Markdown, CSV or JSON.

use std::path::Path;
use std::time::Duration;

use pervade::data::OutputFormat;
use pervade::{Error, Result};
use serde::Serialize;

use crate::files::Kind;
use crate::report::LabelScores;
use crate::tables::{Summary, aligned};
use crate::{outputs, words};

/// The file format of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Markdown,
    Csv,
    Json,
}

impl Format {
    /// The format for the extension of the file name.
    pub(super) fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("md") => Ok(Self::Markdown),
            Some("csv") => Ok(Self::Csv),
            Some("json") => Ok(Self::Json),
            _ => Err(Error::setting("out", path.display(), "must end in .md, .csv or .json")),
        }
    }

    /// The kind of file that this format writes.
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Markdown => Kind::Text,
            Self::Csv => Kind::Table(OutputFormat::Csv),
            Self::Json => Kind::Json,
        }
    }
}

/// The whole comparison.
#[derive(Serialize)]
pub(super) struct Comparison {
    pub(super) data: String,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) clusters: usize,
    pub(super) seeds: usize,
    pub(super) device: String,
    pub(super) threads: usize,
    #[serde(skip)]
    pub(super) labelled: bool,
    pub(super) methods: Vec<MethodReport>,
}

/// The results of one method.
#[derive(Serialize)]
pub(super) struct MethodReport {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) runs: Vec<RunReport>,
    /// Mean adjusted Rand index over all pairs of runs.
    pub(super) stability: Option<f64>,
    /// Why the method stopped.
    pub(super) problem: Option<String>,
}

/// One run.
#[derive(Serialize)]
pub(super) struct RunReport {
    pub(super) seed: u64,
    pub(super) seconds: f64,
    #[serde(flatten)]
    pub(super) labelled: Option<LabelScores>,
    pub(super) modularity: f64,
    pub(super) silhouette: Option<f64>,
}

impl RunReport {
    /// The run as text.
    pub(super) fn words(&self) -> String {
        let took = words::duration(Duration::from_secs_f64(self.seconds));
        let labelled = self.labelled.map_or(String::new(), |scores| format!(", {}", scores.words()));
        format!("{took}{labelled}, modularity {:.3}", self.modularity)
    }
}

/// A named score of a run; ACC in percent, as in the literature.
struct Column {
    title: &'static str,
    key: &'static str,
    digits: usize,
    scale: f64,
    of: fn(&RunReport) -> Option<f64>,
}

const COLUMNS: [Column; 5] = [
    Column {
        title: "ACC %",
        key: "accuracy",
        digits: 2,
        scale: 100.0,
        of: |run| run.labelled.map(|scores| scores.accuracy),
    },
    Column { title: "NMI", key: "nmi", digits: 3, scale: 1.0, of: |run| run.labelled.map(|s| s.nmi) },
    Column { title: "ARI", key: "ari", digits: 3, scale: 1.0, of: |run| run.labelled.map(|s| s.ari) },
    Column { title: "modularity", key: "modularity", digits: 3, scale: 1.0, of: |run| Some(run.modularity) },
    Column { title: "silhouette", key: "silhouette", digits: 3, scale: 1.0, of: |run| run.silhouette },
];

impl MethodReport {
    fn summary(&self, of: fn(&RunReport) -> Option<f64>) -> Option<Summary> {
        Summary::of(&self.runs.iter().filter_map(of).collect::<Vec<f64>>())
    }
}

impl Comparison {
    /// Columns to show; "best" refers to the first.
    fn columns(&self) -> &'static [Column] {
        if self.labelled { &COLUMNS } else { &COLUMNS[3..] }
    }

    /// The table as Markdown with aligned columns.
    pub(super) fn markdown(&self) -> String {
        let columns = self.columns();
        let mut header = vec!["method".to_string()];
        header.extend(columns.iter().map(|column| column.title.to_string()));
        header.insert(2, format!("best {}", columns[0].title));
        header.extend(["stability".to_string(), "seconds".to_string()]);
        let mut lines = vec![header];
        let mut notes = String::new();
        for method in &self.methods {
            let mark = if method.problem.is_some() { " *" } else { "" };
            let cell = |summary: Option<Summary>, digits, scale| {
                summary.map_or("-".to_string(), |summary| summary.words(digits, scale))
            };
            let mut line = vec![format!("{}{mark}", method.name)];
            line.extend(
                columns.iter().map(|column| cell(method.summary(column.of), column.digits, column.scale)),
            );
            let best = method.summary(columns[0].of).map(|summary| columns[0].scale * summary.best);
            line.insert(2, best.map_or("-".to_string(), |best| format!("{best:.*}", columns[0].digits)));
            line.push(method.stability.map_or("-".to_string(), |stability| format!("{stability:.3}")));
            line.push(cell(method.summary(|run| Some(run.seconds)), 1, 1.0));
            lines.push(line);
            if let Some(problem) = &method.problem {
                notes.push_str(&format!(
                    "\n\\* {} stopped after {} of {}: {problem}\n",
                    method.name,
                    method.runs.len(),
                    words::counted(self.seeds, "seed")
                ));
            }
        }
        format!("{}{notes}", aligned(&lines))
    }

    /// One line per method; empty cells for missing scores.
    fn csv(&self) -> String {
        let mut text = String::from("method,runs");
        for column in self.columns() {
            text.push_str(&["mean", "sd", "best"].map(|what| format!(",{}_{what}", column.key)).concat());
        }
        text.push_str(",stability,seconds_mean,seconds_sd,problem\n");
        let number = |value: Option<f64>| value.map_or(",".to_string(), |value| format!(",{value}"));
        for method in &self.methods {
            text.push_str(&format!("{},{}", method.name, method.runs.len()));
            for column in self.columns() {
                let summary = method.summary(column.of);
                let each = [
                    summary.as_ref().map(|s| s.mean),
                    summary.as_ref().and_then(|s| s.sd),
                    summary.as_ref().map(|s| s.best),
                ];
                text.push_str(&each.map(number).concat());
            }
            let seconds = method.summary(|run| Some(run.seconds));
            text.push_str(&number(method.stability));
            text.push_str(&number(seconds.as_ref().map(|s| s.mean)));
            text.push_str(&number(seconds.as_ref().and_then(|s| s.sd)));
            let problem = method.problem.as_deref().unwrap_or_default().replace('"', "\"\"");
            text.push_str(&if problem.is_empty() { ",\n".to_string() } else { format!(",\"{problem}\"\n") });
        }
        text
    }

    /// Writes the table to a file.
    pub(super) fn write(&self, path: &Path, format: Format) -> Result<()> {
        match format {
            Format::Markdown => outputs::text(path, &self.markdown()),
            Format::Csv => outputs::text(path, &self.csv()),
            Format::Json => outputs::json(self, path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(labelled: bool) -> Comparison {
        let scores = |accuracy| LabelScores { accuracy, nmi: 0.5, ari: 0.25 };
        let run = |seed, accuracy| RunReport {
            seed,
            seconds: 1.5,
            labelled: labelled.then(|| scores(accuracy)),
            modularity: 0.75,
            silhouette: None,
        };
        let runs = vec![run(0, 0.8), run(1, 0.9)];
        let problem = Some("a \"bad\" day".to_string());
        let good = MethodReport { name: "good", about: "", runs, stability: Some(1.0), problem: None };
        let bad = MethodReport { name: "bad", about: "", runs: vec![], stability: None, problem };
        Comparison {
            data: "x.csv".to_string(),
            rows: 10,
            columns: 2,
            clusters: 2,
            seeds: 2,
            device: "cpu".to_string(),
            threads: 1,
            labelled,
            methods: vec![good, bad],
        }
    }

    #[test]
    fn tables_show_mean_deviation_best_and_failures() {
        let text = comparison(true).markdown();
        assert!(text.contains("| good   | 85.00 ± 7.07 |      90.00 | 0.500 ± 0.000 |"), "{text}");
        assert!(text.contains("| bad *  |            - |          - |"), "{text}");
        assert!(text.ends_with("\n\\* bad stopped after 0 of 2 seeds: a \"bad\" day\n"), "{text}");
        let unlabelled = comparison(false).markdown();
        assert!(!unlabelled.contains("ACC") && unlabelled.contains("best modularity"), "{unlabelled}");
    }

    #[test]
    fn csv_has_one_line_per_method() {
        let csv = comparison(false).csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines[1], "good,2,0.75,0,0.75,,,,1,1.5,0,");
        assert_eq!(lines[2], "bad,0,,,,,,,,,,\"a \"\"bad\"\" day\"");
        assert_eq!(lines[0].split(',').count(), lines[1].split(',').count());
    }
}
