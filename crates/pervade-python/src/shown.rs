//! What is seen of the clusters: descriptions, the map, and the page.

use std::cell::RefCell;

use pervade::compute::Device;
use pervade::data::{Dataset, Kept, Labels};
use pervade::describe::{DescribeOptions, Description, ExampleRow, describe_rows};
use pervade::model::Vade;
use pervade::train::{Control, Event, Observer};
use pervade::{Error, Result};
use pervade_cli::{Caller, Feedback, Subject, TableView, lay_out, report_page, row_results};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::compute::Listener;
use crate::model::for_each_part;
use crate::table::GivenColumn;

/// Passes the progress of a layout on as events and collects notes, which become warnings.
pub(crate) struct Forwarded<'a> {
    listener: RefCell<&'a mut Listener>,
    notes: RefCell<Vec<String>>,
}

impl<'a> Forwarded<'a> {
    pub(crate) fn new(listener: &'a mut Listener) -> Self {
        Self { listener: RefCell::new(listener), notes: RefCell::default() }
    }

    /// The notes so far.
    pub(crate) fn into_notes(self) -> Vec<String> {
        self.notes.into_inner()
    }
}

impl Feedback for Forwarded<'_> {
    fn note(&self, text: &str) {
        self.notes.borrow_mut().push(text.to_string());
    }

    fn layout_started(&self, n_rows: usize) -> Box<dyn FnMut(f64) -> bool + '_> {
        self.listener.borrow().send(json!({"event": "layout-started", "rows": n_rows}));
        Box::new(|share| {
            let event = || json!({"event": "layout", "share": share});
            match share {
                1.0.. => self.listener.borrow().send(event()),
                _ => self.listener.borrow_mut().progress(event),
            }
            self.goes_on()
        })
    }

    fn goes_on(&self) -> bool {
        self.listener.borrow_mut().event(&Event::Working) == Control::Continue
    }
}

/// Labels that clusters are compared with.
#[derive(FromPyObject)]
pub(crate) enum GivenLabels {
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    Words(Vec<String>),
}

impl GivenLabels {
    fn labels(&self, n_rows: usize) -> Result<Labels> {
        let labels = match self {
            Self::Integers(values) => Labels::from_integers(values),
            Self::Numbers(values) => Labels::from_numbers(values, "labels")?,
            Self::Words(values) => Labels::from_text(values, "labels")?,
        };
        labels.check_length(n_rows, "labels")?;
        Ok(labels)
    }
}

/// What a page shows besides the model and its rows.
#[derive(FromPyObject)]
pub(crate) struct ReportOptions<'py> {
    title: String,
    points: usize,
    labels: Option<GivenLabels>,
    /// Columns that name the rows.
    kept: Vec<GivenColumn<'py>>,
}

/// The same, without Python's objects.
pub(crate) struct Heading {
    title: String,
    points: usize,
    labels: Option<GivenLabels>,
    kept: Option<Kept>,
}

impl ReportOptions<'_> {
    pub(crate) fn heading(self) -> PyResult<Heading> {
        let columns = self.kept.iter().map(GivenColumn::raw).collect::<PyResult<Vec<_>>>()?;
        let kept = (!columns.is_empty()).then(|| Kept {
            names: columns.iter().map(|column| column.name.clone()).collect(),
            columns: columns
                .iter()
                .map(|column| (0..column.len()).map(|row| column.text(row)).collect())
                .collect(),
        });
        Ok(Heading { title: self.title, points: self.points, labels: self.labels, kept })
    }
}

/// The page.
pub(crate) fn report<D: Device>(
    model: &Vade,
    device: &D,
    data: &Dataset<'_>,
    heading: Heading,
    feedback: &dyn Feedback,
) -> Result<String> {
    let labels = heading.labels.map(|labels| labels.labels(data.n_rows())).transpose()?;
    let (labels, kept) = (labels.as_ref(), heading.kept.as_ref());
    if let Some(column) = kept.and_then(|kept| kept.columns.iter().find(|c| c.len() != data.n_rows())) {
        let problem = format!("a column has {} cells for {} rows", column.len(), data.n_rows());
        return Err(Error::data("X", problem));
    }
    let data = &*model.matched(data)?;
    let table = TableView { data, labels, kept };
    let (title, points) = (heading.title, heading.points);
    let caller = Caller::Python;
    report_page(&Subject { model, table, caller, title, points, names: None }, device, feedback)
}

/// The position of each row in the plane.
pub(crate) fn map<D: Device>(
    model: &Vade,
    device: &D,
    data: &Dataset<'_>,
    listener: &mut Listener,
) -> Result<Vec<f32>> {
    let (mut clusters, mut latents) = (Vec::new(), Vec::new());
    for_each_part(data, listener, |part| {
        clusters.extend(model.assign(device, part)?.clusters);
        latents.extend(model.embed(device, part)?);
        Ok(())
    })?;
    let points = lay_out(&latents, model.n_latents(), &clusters, &Forwarded::new(listener))?;
    Ok(points.into_flattened())
}

/// A description of the clusters as JSON, with this many columns and rows of each kind per cluster.
pub(crate) fn describe<D: Device>(
    model: &Vade,
    device: &D,
    data: &Dataset<'_>,
    (columns, rows): (usize, usize),
    listener: &mut Listener,
) -> Result<String> {
    let results = row_results(model, device, data, &Forwarded::new(listener))?;
    let options = DescribeOptions::default().with(|o| {
        (o.columns, o.typical, o.doubtful) = (columns, rows, rows);
        (o.between, o.outliers) = (0, 0);
    });
    Ok(in_json(&describe_rows(model, device, data, &results, &options)?).to_string())
}

fn in_json(found: &Description) -> Value {
    let row = |example: &ExampleRow| json!({"row": example.row, "confidence": example.confidence, "second": example.second, "score": example.score});
    let clusters = found.clusters.iter().map(|cluster| {
        let columns = cluster.columns.iter().map(|column| {
            json!({
                "column": column.name,
                "difference": column.difference,
                "auc": column.auc,
                "inside": column.inside,
                "outside": column.outside,
            })
        });
        json!({
            "size": cluster.n_rows,
            "share": cluster.share,
            "confidence": cluster.mean_confidence,
            "columns": columns.collect::<Vec<_>>(),
            "typical": cluster.typical.iter().map(row).collect::<Vec<_>>(),
            "doubtful": cluster.doubtful.iter().map(row).collect::<Vec<_>>(),
        })
    });
    Value::Array(clusters.collect())
}

/// Some rows of a fit: latents, clusters and confidences.
#[derive(Default)]
pub(crate) struct Sample {
    pub(crate) latents: Vec<f32>,
    pub(crate) clusters: Vec<i32>,
    pub(crate) confidences: Vec<f32>,
}

/// Rows of a sample, which a second suffices to lay out, and the blocks that it consists of: blocks are quicker than single
/// rows.
const SAMPLE_ROWS: usize = 1000;
const SAMPLE_BLOCKS: usize = 40;

/// Blocks of rows that are evenly spread over the table, or all rows.
pub(crate) fn sample<D: Device>(
    model: &Vade,
    device: &D,
    data: &Dataset<'_>,
    listener: &mut Listener,
) -> Result<Sample> {
    let (mut sample, n) = (Sample::default(), data.n_rows());
    let (n_blocks, length) =
        if n <= SAMPLE_ROWS { (1, n) } else { (SAMPLE_BLOCKS, SAMPLE_ROWS / SAMPLE_BLOCKS) };
    for block in 0..n_blocks {
        let first = (block as u128 * (n - length) as u128 / (n_blocks.max(2) - 1) as u128) as usize;
        for_each_part(&data.slice(first..first + length), listener, |part| {
            let found = model.assign(device, part)?;
            let probabilities = found.probabilities.chunks_exact(found.n_clusters).zip(&found.clusters);
            sample.confidences.extend(probabilities.map(|(p, &cluster)| p[cluster as usize]));
            sample.clusters.extend(found.clusters.iter().map(|&cluster| cluster as i32));
            sample.latents.extend(model.embed(device, part)?);
            Ok(())
        })?;
    }
    Ok(sample)
}
