//! ONNX: a graph from raw rows to clusters, probabilities, latents and score.
//!
//! The graph is what the library computes, in the same order and precision where it matters: rows are prepared in the precision of
//! the table, networks run in single precision, densities and the prior in double precision. Scores of tables whose columns have types
//! are estimated from the same samples of z as [`Vade::score`] uses.

mod about;
mod cells;
mod graph;
mod likelihood;
mod mixture;
mod network;
mod prepare;
mod score;

use std::io::Write;
use std::path::Path;

use pervade::data::Column;
use pervade::files::write_atomically;
use pervade::memory::{Need, product, require};
use pervade::model::{Parts, Vade};
use pervade::{Error, Result};

use crate::protobuf::Message;
use graph::{Attribute, Dimension, Element, Graph};

/// Versions of the format.
const IR_VERSION: i64 = 8;
const OPSET: i64 = 17;
const ML_OPSET: i64 = 3;
/// Protocol Buffers have no larger messages.
const MAX_BYTES: usize = i32::MAX as usize;
/// Copies of the weights in memory while a file is made.
const COPIES: usize = 4;

/// What to export.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OnnxOptions {
    /// Whether the output `score` is part of the graph; without it the file has no decoder and a row takes less time.
    pub score: bool,
}

impl Default for OnnxOptions {
    fn default() -> Self {
        Self { score: true }
    }
}

impl OnnxOptions {
    /// These options with a change.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// Whether [`Vade::score`] of rows with missing cells is not part of the graph: the table of the fit had none, and the density of its
/// rows is a Gaussian mixture, which the graph has for complete rows only. The output `score` is then NaN.
pub fn has_scores_for_complete_rows_only(model: &Vade) -> bool {
    model.has_row_density()
}

/// An input of the graph, of shape `[batch, n_columns]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OnnxInput {
    /// Its name.
    pub name: String,
    /// The type of its elements: `float32`, `float64` or `string`.
    pub element: &'static str,
    /// Number of its columns.
    pub n_columns: usize,
}

/// The inputs of a model's graph.
pub fn inputs(model: &Vade) -> Vec<OnnxInput> {
    let rows = |element: &'static str| {
        let n_columns = model.metadata().n_source_columns();
        vec![OnnxInput { name: cells::ROWS.to_string(), element, n_columns }]
    };
    let Some(schema) = model.schema() else { return rows("float32") };
    let inputs = cells::TypedInputs::new(model, schema);
    if inputs.is_matrix() {
        return rows("float64");
    }
    let element = |column: &Column| match cells::Given::of(column) {
        cells::Given::Word => "string",
        cells::Given::Number | cells::Given::Date => "float64",
    };
    let named = inputs.names().into_iter().zip(schema.source_columns());
    named.map(|(name, column)| OnnxInput { name, element: element(column), n_columns: 1 }).collect()
}

/// Writes the model as an ONNX file, atomically; returns its size.
pub fn write_onnx(model: &Vade, options: &OnnxOptions, path: &Path) -> Result<u64> {
    let bytes = onnx(model, options)?;
    write_atomically(path, |out| out.write_all(&bytes))?;
    Ok(bytes.len() as u64)
}

/// The bytes of an ONNX file.
pub fn onnx(model: &Vade, options: &OnnxOptions) -> Result<Vec<u8>> {
    let parts = model.parts()?;
    let n_weights = n_weights(&parts, options);
    check_size(n_weights.saturating_mul(size_of::<f32>()))?;
    let need = Need::of("copies of the weights", product(&[n_weights, COPIES, size_of::<f32>()]));
    require("the ONNX file", &need, "export it on a machine with more memory")?;
    let graph = whole_graph(model, &parts, options);
    let opset = |domain: &str, version: i64| Message::new().text(1, domain).integer(2, version);
    let mut file = Message::new()
        .integer(1, IR_VERSION)
        .text(2, "pervade")
        .text(3, env!("CARGO_PKG_VERSION"))
        .text(6, &about::description(model, options))
        .message(7, &graph);
    drop(graph);
    file = file.message(8, &opset("", OPSET)).message(8, &opset("ai.onnx.ml", ML_OPSET));
    for (key, value) in about::metadata(model, options)? {
        file = file.message(14, &Message::new().text(1, key).text(2, &value));
    }
    let bytes = file.into_bytes();
    check_size(bytes.len())?;
    Ok(bytes)
}

/// Weights that the file holds.
fn n_weights(parts: &Parts<'_>, options: &OnnxOptions) -> usize {
    let encoder = parts.architecture.encoder.layers.iter();
    let decoder = parts.architecture.decoder.layers.iter().filter(|_| options.score);
    let each = encoder.chain(decoder).map(|layer| layer.weights().weight);
    each.map(|weight| weight.rows.saturating_mul(weight.columns)).fold(0, usize::saturating_add)
}

fn check_size(n_bytes: usize) -> Result<()> {
    if n_bytes <= MAX_BYTES {
        return Ok(());
    }
    let problem = format!("as an ONNX file it has {n_bytes} bytes, and ONNX files have at most {MAX_BYTES}");
    Err(Error::model("model", problem).with_hint("fit a model with smaller layers, or leave the score out"))
}

/// From raw rows to all outputs.
fn whole_graph(model: &Vade, parts: &Parts<'_>, options: &OnnxOptions) -> Message {
    let mut g = Graph::new();
    let j = model.n_latents();
    let prepared = prepare::prepare(&mut g, model);
    let head = network::network(&mut g, parts, "encoder", &parts.architecture.encoder, &prepared.input);
    let means = g.integers(&(0..j as i64).collect::<Vec<i64>>());
    g.op_into("Gather", &[&head, &means], &[Attribute::Integer("axis", 1)], "latents");
    let wide_means = g.cast("latents", Element::Double);
    let prior = mixture::Prior::new(model);
    let log_joints = prior.log_joints(&mut g, &wide_means, None);
    mixture::clusters(&mut g, model, &log_joints);
    let fixed = |n: usize| [Dimension::Batch, Dimension::Fixed(n)];
    let k = model.n_clusters();
    g.output("cluster", Element::Integer, &[Dimension::Batch], "The most probable cluster of each row.");
    g.output("probabilities", Element::Float, &fixed(k), "The probability of each cluster, q(c|x).");
    g.output("latents", Element::Float, &fixed(j), "The mean of q(z|x).");
    if options.score {
        let encoded = score::Encoded { means: "latents".to_string(), wide_means, head };
        let scoring = score::Scoring { model, parts, prior: &prior, prepared: &prepared, encoded: &encoded };
        scoring.add_to(&mut g);
        let what = format!("The {} of each row, in nats.", model.score_name());
        g.output("score", Element::Float, &[Dimension::Batch], &what);
    }
    g.finish("pervade")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_files_than_the_format_allows_are_refused() {
        check_size(MAX_BYTES).unwrap();
        let error = check_size(MAX_BYTES + 1).unwrap_err();
        assert!(error.to_string().contains("2147483648 bytes") && error.hint().is_some(), "{error}");
    }
}
