//! One card per cluster, and rows as examples.

use pervade::Result;
use pervade::compute::Device;
use pervade::describe::{self, ClusterDescription, ExampleRow};
use pervade::model::Cells;
use pervade_report::{Between, Cluster, Distinction, Distribution, Example, Outlier, Overlap};

use super::Facts;

/// Cells of an example.
pub(super) const CELLS: usize = 8;
/// Pairs of clusters with examples.
const PAIRS: usize = 60;

/// Makes cards of clusters.
pub(super) struct Cards<'a> {
    pub(super) facts: &'a Facts<'a>,
}

impl Cards<'_> {
    pub(super) fn clusters<D: Device>(&self, device: &D, n_generated: usize) -> Result<Vec<Cluster>> {
        let d = self.facts.subject.model.n_columns();
        let of_cluster = |cluster: &ClusterDescription| {
            let columns = shown_columns(self.facts.subject.model.n_columns(), &[cluster]);
            let (model, examples) = (self.facts.subject.model, self.facts.examples);
            let n_generated = if model.has_components(cluster.cluster) { n_generated } else { 0 };
            let made = match n_generated {
                0 => Vec::new(),
                n => model.generate(device, Some(cluster.cluster), n, 0, Cells::Auto)?.rows,
            };
            let example = |row: &ExampleRow| self.example(row, &columns);
            Ok(Cluster {
                name: self.facts.subject.name(cluster.cluster),
                label: self.label(cluster.cluster),
                n_rows: cluster.n_rows,
                confidence: cluster.confidence,
                mean_confidence: cluster.mean_confidence,
                columns: shown(&cluster.columns),
                typical: cluster.typical.iter().map(|row| Example { second: None, ..example(row) }).collect(),
                doubtful: cluster.doubtful.iter().map(example).collect(),
                generated: made.chunks_exact(d).map(|row| examples.generated(row, &columns)).collect(),
                mean_picture: cluster.mean_row.as_deref().and_then(|row| examples.picture(row)),
            })
        };
        self.facts.found.clusters.iter().map(of_cluster).collect()
    }

    /// The most frequent known label of a cluster, and its share; ties go to the first.
    fn label(&self, cluster: usize) -> Option<(String, f64)> {
        let labels = self.facts.subject.table.labels.as_ref()?;
        let mut counts = vec![0usize; labels.names().len()];
        let rows = labels.ids().iter().zip(&self.facts.results.assignments.clusters);
        rows.filter(|(_, k)| **k as usize == cluster).for_each(|(&id, _)| counts[id as usize] += 1);
        let most = (0..counts.len()).reduce(|a, b| if counts[b] > counts[a] { b } else { a })?;
        let n: usize = counts.iter().sum();
        (n > 0).then(|| (labels.names()[most].clone(), counts[most] as f64 / n as f64))
    }

    pub(super) fn overlap(&self) -> Overlap {
        let found = self.facts.found;
        let between = found.between.iter().take(PAIRS).map(|pair| {
            let columns = shown_columns(
                self.facts.subject.model.n_columns(),
                &pair.clusters.map(|k| &found.clusters[k]),
            );
            let examples = pair.examples.iter().map(|row| self.example(row, &columns));
            Between { clusters: pair.clusters, n_rows: pair.n_rows, examples: examples.collect() }
        });
        Overlap { mean_probabilities: found.overlap.clone(), between: between.collect() }
    }

    pub(super) fn outliers(&self) -> Vec<Outlier> {
        let columns = shown_columns(
            self.facts.subject.model.n_columns(),
            &self.facts.found.clusters.iter().collect::<Vec<_>>(),
        );
        let outliers = self.facts.found.outliers.iter().map(|outlier| Outlier {
            example: Example { second: None, ..self.example(&outlier.example, &columns) },
            cluster: outlier.cluster,
            score: outlier.example.score,
            costs: outlier
                .costs
                .iter()
                .map(|cost| (cost.column.clone(), cost.value.clone(), cost.expected.clone(), cost.nats))
                .collect(),
        });
        outliers.collect()
    }

    fn example(&self, example: &ExampleRow, columns: &[usize]) -> Example {
        Example {
            confidence: Some(f64::from(example.confidence)),
            second: example.second.map(|(cluster, p)| (cluster, f64::from(p))),
            ..self.facts.examples.of_row(example.row, columns)
        }
    }
}

/// The columns that examples of some clusters show: all of a narrow table, otherwise those that tell these clusters from
/// the others.
pub(crate) fn shown_columns(d: usize, clusters: &[&ClusterDescription]) -> Vec<usize> {
    if d <= CELLS {
        return (0..d).collect();
    }
    let mut columns: Vec<usize> = Vec::new();
    for rank in 0..super::COLUMNS {
        for column in clusters.iter().filter_map(|cluster| cluster.columns.get(rank)) {
            if !columns.contains(&column.column) && columns.len() < CELLS {
                columns.push(column.column);
            }
        }
    }
    columns
}

/// The columns that differ, each once: of several levels the most telling one, whose chart shows the others, too.
fn shown(columns: &[describe::Distinction]) -> Vec<Distinction> {
    let is_first = |i: usize| columns[..i].iter().all(|earlier| earlier.column != columns[i].column);
    let notable = columns.iter().enumerate().filter(|(i, column)| is_notable(column) && is_first(*i));
    notable.map(|(_, column)| distinction(column)).collect()
}

/// Narrow tables have room for all columns, also those that hardly differ.
pub(crate) fn is_notable(column: &describe::Distinction) -> bool {
    (column.auc - 0.5).abs() >= 0.02 || column.difference.abs() >= 0.1
}

pub(crate) fn distinction(column: &describe::Distinction) -> Distinction {
    Distinction {
        column: column.name.clone(),
        difference: column.difference,
        auc: column.auc,
        inside: column.inside.clone(),
        outside: column.outside.clone(),
        distribution: distribution(&column.distribution),
    }
}

fn distribution(of: &describe::Distribution) -> Distribution {
    match of.clone() {
        describe::Distribution::Histogram { range, labels, inside, outside, generated } => {
            Distribution::Histogram { range, labels, inside, outside, generated }
        }
        describe::Distribution::Levels { names, inside, outside, generated } => {
            Distribution::Levels { names, inside, outside, generated }
        }
        describe::Distribution::Term { inside, outside, log_odds } => {
            Distribution::Term { inside, outside, log_odds }
        }
        _ => Distribution::Levels { names: vec![], inside: vec![], outside: vec![], generated: vec![] },
    }
}
