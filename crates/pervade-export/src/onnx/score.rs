//! The score of each row: the ELBO with z at its mean or, for tables whose columns have types, the log density from samples of z.

use std::f64::consts::TAU;

use pervade::compute::{LOG_VARIANCE_LIMIT, Likelihood};
use pervade::model::{Parts, Vade};

use super::graph::{Attribute, Dimension, Element, Graph, Tensor, Value};
use super::likelihood::{TypedTerms, shared};
use super::mixture::{Prior, row_log_density};
use super::network::network;
use super::prepare::Prepared;

/// What the encoder says of the rows.
pub(super) struct Encoded {
    /// Means of q(z|x) in single and in double precision. `[batch, J]`
    pub(super) means: Value,
    pub(super) wide_means: Value,
    /// Means and log variances. `[batch, 2 J]`
    pub(super) head: Value,
}

/// Everything that a score is made of.
pub(super) struct Scoring<'a> {
    pub(super) model: &'a Vade,
    pub(super) parts: &'a Parts<'a>,
    pub(super) prior: &'a Prior,
    pub(super) prepared: &'a Prepared,
    pub(super) encoded: &'a Encoded,
}

impl Scoring<'_> {
    /// Adds the output `score`.
    pub(super) fn add_to(&self, g: &mut Graph) {
        let j = self.model.n_latents();
        let log_variances = g.columns(&self.encoded.head, &(j..2 * j).collect::<Vec<usize>>());
        let (low, high) = (g.float(-LOG_VARIANCE_LIMIT), g.float(LOG_VARIANCE_LIMIT));
        let log_variances = g.clip(&log_variances, &low, &high);
        let score = match self.model.metadata().likelihood {
            Likelihood::Typed { .. } => self.log_density(g, &log_variances),
            _ => self.elbo(g, &log_variances),
        };
        let single = g.cast(&score, Element::Float);
        if self.parts.row_mixture.is_some() {
            // Rows with missing cells have no score: NaN.
            return g.op_into("Identity", &[&single], &[], "score");
        }
        // A row whose values overflow is as unlike the data as possible.
        let (is_nan, lowest) = (g.op("IsNaN", &[&single]), g.float(f32::NEG_INFINITY));
        g.op_into("Where", &[&is_nan, &lowest, &single], &[], "score");
    }

    /// log p(x|z) at the mean of z, the expected log prior and the entropy of q(z|x).
    fn elbo(&self, g: &mut Graph, log_variances: &str) -> Value {
        let (model, parts, encoded) = (self.model, self.parts, self.encoded);
        let output = network(g, parts, "decoder", &parts.architecture.decoder, &encoded.means);
        let output = g.cast(&output, Element::Double);
        let x = g.cast(&self.prepared.cells, Element::Double);
        let likelihood = model.metadata().likelihood;
        let reconstruction = shared(g, likelihood, &parts.scales, &x, &output, model.n_columns());
        let log_variances = g.cast(log_variances, Element::Double);
        let variances = g.op("Exp", &[&log_variances]);
        let joints = self.prior.log_joints(g, &encoded.wide_means, Some(&variances));
        let expected = g.log_sum_exp(&joints, 1);
        let sum = g.sum(&log_variances, 1, false);
        let (half, constant) = (g.double(0.5), g.double(0.5 * model.n_latents() as f64 * (1.0 + TAU.ln())));
        let scaled = g.mul(&sum, &half);
        let entropy = g.add(&scaled, &constant);
        let both = g.add(&reconstruction, &expected);
        g.add(&both, &entropy)
    }

    /// ln of the mean over samples of p(x|z) p(z) / (density that z was drawn from), one pass of a loop per sample.
    fn log_density(&self, g: &mut Graph, log_variances: &str) -> Value {
        let (model, parts, encoded) = (self.model, self.parts, self.encoded);
        let (j, columns) = (model.n_latents(), model.metadata().preparation.columns());
        let terms = TypedTerms::new(g, columns, &parts.scales, self.prepared);
        let half = g.float(0.5);
        let halves = g.mul(log_variances, &half);
        let deviations = g.op("Exp", &[&halves]);
        let body = sample_body(j, parts, self.prior, &terms, encoded, &deviations);
        let n_samples = parts.noise_log_densities.len();
        let noise = g.constant(&[n_samples, j], &Tensor::Floats(&parts.noise));
        let densities = g.doubles(&parts.noise_log_densities);
        let attributes = [Attribute::Graph("body", &body), Attribute::Integer("num_scan_inputs", 2)];
        let log_weights = g.op_with("Scan", &[&noise, &densities], &attributes);
        let log_sum = g.log_sum_exp(&log_weights, 0);
        // The density of z is that of the noise over the deviations.
        let logs = g.cast(&halves, Element::Double);
        let (widths, n) = (g.sum(&logs, 1, false), g.double((n_samples as f64).ln()));
        let sum = g.add(&log_sum, &widths);
        let sum = g.add(&sum, &terms.fixed);
        let own = g.sub(&sum, &n);
        let Some(mixture) = &parts.row_mixture else { return own };
        let x = g.cast(&self.prepared.cells, Element::Double);
        let rows = row_log_density(g, mixture, &x);
        let axis = g.integers(&[1]);
        let both = [&own, &rows].map(|part| g.op("Unsqueeze", &[part, &axis]));
        let (both, two) = (g.concat(&both), g.double(2.0f64.ln()));
        let sum = g.log_sum_exp(&both, 1);
        g.sub(&sum, &two)
    }
}

/// From the noise of one sample to the logarithm of its weight. `[batch]`
fn sample_body(
    j: usize,
    parts: &Parts<'_>,
    prior: &Prior,
    terms: &TypedTerms,
    encoded: &Encoded,
    deviations: &str,
) -> crate::protobuf::Message {
    const NOISE: &str = "pervade.sample.noise";
    const DENSITY: &str = "pervade.sample.noise_log_density";
    const WEIGHT: &str = "pervade.sample.log_weight";
    let mut body = Graph::body();
    body.input(NOISE, Element::Float, &[Dimension::Fixed(j)], "");
    body.input(DENSITY, Element::Double, &[], "");
    body.output(WEIGHT, Element::Double, &[Dimension::Batch], "");
    let distance = body.mul(deviations, NOISE);
    let z = body.add(&encoded.means, &distance);
    let output = network(&mut body, parts, "decoder", &parts.architecture.decoder, &z);
    let output = body.cast(&output, Element::Double);
    let reconstruction = terms.varying(&mut body, &output);
    let z = body.cast(&z, Element::Double);
    let joints = prior.log_joints(&mut body, &z, None);
    let log_prior = body.log_sum_exp(&joints, 1);
    let both = body.add(&reconstruction, &log_prior);
    body.op_into("Sub", &[&both, DENSITY], &[], WEIGHT);
    body.finish("log weight of a sample")
}
