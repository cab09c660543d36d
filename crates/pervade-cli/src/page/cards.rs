//! One card per cluster, and rows as examples.

use pervade::Result;
use pervade::compute::Device;
use pervade::data::{ImageShape, Values};
use pervade::describe::{self, ClusterDescription, ExampleRow};
use pervade::model::Cells;
use pervade_report::{Between, Cluster, Distinction, Distribution, Example, Outlier, Overlap, Picture};

use super::Facts;
use crate::picture::Tone;

/// Cells of an example.
const CELLS: usize = 8;
/// Larger pictures are reduced to about this many pixels per side.
const PICTURE_SIDE: usize = 48;
/// Pairs of clusters with examples.
const PAIRS: usize = 60;

/// Makes examples of rows.
pub(super) struct Cards<'a> {
    facts: &'a Facts<'a>,
    pictures: Option<(ImageShape, Tone)>,
}

impl<'a> Cards<'a> {
    pub(super) fn new(facts: &'a Facts<'a>) -> Self {
        let (model, data) = (facts.subject.model, &facts.subject.table.data);
        let pictures = model.image().map(|shape| {
            let (low, high) = data.range();
            (shape, Tone::of_model(model.metadata(), [low as f32, high as f32].into_iter()))
        });
        Self { facts, pictures }
    }

    pub(super) fn clusters<D: Device>(&self, device: &D, n_generated: usize) -> Result<Vec<Cluster>> {
        let d = self.facts.subject.model.n_columns();
        let of_cluster = |cluster: &ClusterDescription| {
            let columns = self.columns(&[cluster]);
            let model = self.facts.subject.model;
            let made = model.generate(device, Some(cluster.cluster), n_generated, 0, Cells::Auto)?;
            let example = |row: &ExampleRow| self.example(row, &columns);
            Ok(Cluster {
                name: None,
                label: self.label(cluster.cluster),
                n_rows: cluster.n_rows,
                confidence: cluster.confidence,
                mean_confidence: cluster.mean_confidence,
                columns: shown(&cluster.columns),
                typical: cluster.typical.iter().map(|row| Example { second: None, ..example(row) }).collect(),
                doubtful: cluster.doubtful.iter().map(example).collect(),
                generated: made.rows.chunks_exact(d).map(|row| self.generated(row, &columns)).collect(),
                mean_picture: cluster.mean_row.as_deref().and_then(|row| self.picture(row)),
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
            let columns = self.columns(&pair.clusters.map(|k| &found.clusters[k]));
            let examples = pair.examples.iter().map(|row| self.example(row, &columns));
            Between { clusters: pair.clusters, n_rows: pair.n_rows, examples: examples.collect() }
        });
        Overlap { mean_probabilities: found.overlap.clone(), between: between.collect() }
    }

    pub(super) fn outliers(&self) -> Vec<Outlier> {
        let columns = self.columns(&self.facts.found.clusters.iter().collect::<Vec<_>>());
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

    /// The columns that examples show: all of a narrow table, otherwise those that tell these clusters from the others.
    fn columns(&self, clusters: &[&ClusterDescription]) -> Vec<usize> {
        let d = self.facts.subject.model.n_columns();
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

    fn example(&self, example: &ExampleRow, columns: &[usize]) -> Example {
        let (data, texts) = (&self.facts.subject.table.data, self.facts.texts);
        let cell = |&j: &usize| (texts.name(j).to_string(), texts.text(j, data.cell(example.row, j)));
        let picture = self.pictures.and_then(|_| {
            let mut row = vec![0.0; data.n_columns()];
            data.row_into(example.row, &mut row);
            self.picture(&row)
        });
        let cells = match data.values() {
            _ if picture.is_some() => Vec::new(),
            Values::Csr(csr) => {
                let (columns, values) = csr.row(example.row);
                self.largest(columns.iter().zip(values).map(|(&j, &x)| (j as usize, f64::from(x))).collect())
            }
            _ => columns.iter().map(cell).collect(),
        };
        Example {
            row: Some(example.row),
            name: self.facts.name(example.row),
            confidence: Some(f64::from(example.confidence)),
            second: example.second.map(|(cluster, p)| (cluster, f64::from(p))),
            cells,
            picture,
        }
    }

    fn generated(&self, row: &[f32], columns: &[usize]) -> Example {
        let texts = self.facts.texts;
        let cell = |&j: &usize| (texts.name(j).to_string(), texts.rounded(j, f64::from(row[j])));
        let picture = self.picture(row);
        let is_sparse = matches!(self.facts.subject.table.data.values(), Values::Csr(_));
        let cells = match &picture {
            Some(_) => Vec::new(),
            None if is_sparse => {
                self.largest(row.iter().enumerate().map(|(j, &x)| (j, f64::from(x))).collect())
            }
            None => columns.iter().map(cell).collect(),
        };
        Example { cells, picture, ..Example::default() }
    }

    /// The largest entries of a sparse row in one cell: it has few of the columns that other rows have.
    fn largest(&self, mut entries: Vec<(usize, f64)>) -> Vec<(String, String)> {
        entries.retain(|&(_, x)| x > 0.0);
        entries.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let texts = self.facts.texts;
        let entry = |&(j, x): &(usize, f64)| format!("{} {}", texts.name(j), texts.rounded(j, x));
        let shown: Vec<String> = entries.iter().take(CELLS).map(entry).collect();
        vec![("largest entries".to_string(), shown.join(", "))]
    }

    /// A row as a picture, reduced by a whole factor if it is large; none if rows are no pictures.
    fn picture(&self, row: &[f32]) -> Option<Picture> {
        let (ImageShape { height, width, channels }, tone) = self.pictures?;
        let factor = height.max(width).div_ceil(PICTURE_SIDE).max(1);
        let (small_height, small_width) = (height.div_ceil(factor), width.div_ceil(factor));
        let mut pixels = Vec::with_capacity(small_height * small_width * channels);
        for i in 0..small_height {
            for j in 0..small_width {
                for channel in 0..channels {
                    let (mut sum, mut n) = (0.0, 0.0);
                    for y in i * factor..((i + 1) * factor).min(height) {
                        for x in j * factor..((j + 1) * factor).min(width) {
                            sum += row[(y * width + x) * channels + channel];
                            n += 1.0;
                        }
                    }
                    pixels.push(tone.of(sum / n));
                }
            }
        }
        Some(Picture { width: small_width, height: small_height, channels, pixels })
    }
}

/// The columns that differ, each once: of several levels the most telling one, whose chart shows the others, too.
fn shown(columns: &[describe::Distinction]) -> Vec<Distinction> {
    let is_first = |i: usize| columns[..i].iter().all(|earlier| earlier.column != columns[i].column);
    let notable = columns.iter().enumerate().filter(|(i, column)| is_notable(column) && is_first(*i));
    notable.map(|(_, column)| distinction(column)).collect()
}

/// Narrow tables have room for all columns, also those that hardly differ.
fn is_notable(column: &describe::Distinction) -> bool {
    (column.auc - 0.5).abs() >= 0.02 || column.difference.abs() >= 0.1
}

fn distinction(column: &describe::Distinction) -> Distinction {
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
