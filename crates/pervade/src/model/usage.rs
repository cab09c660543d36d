//! The methods of a fitted model: assign, embed, generate, reconstruct, score. Only generated rows are random.

use rayon::prelude::*;

use super::Vade;
use crate::compute::math::normal_pair;
use crate::compute::{Alone, Device, Gamma, LOG_VARIANCE_LIMIT, Likelihood, Params};
use crate::data::Dataset;
use crate::infer::{
    Observed, Pass, argmax, blocks, cluster_probabilities, decoded, decoding_len, outputs, pass_len,
};
use crate::interrupt::Interrupt;
use crate::memory::{Need, product, require};
use crate::seed::{Key, Stream};
use crate::{Error, Result};

/// Clusters of rows, with the probability of every cluster.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Assignments {
    /// Most probable cluster of each row; ties go to the first.
    pub clusters: Vec<u32>,
    /// q(c|x), [N, K]; each row sums to one.
    pub probabilities: Vec<f32>,
    /// Number of clusters, K.
    pub n_clusters: usize,
}

impl Assignments {
    /// Those of no rows, to which those of pieces of a table are added.
    pub fn empty(n_clusters: usize) -> Self {
        Self { clusters: Vec::new(), probabilities: Vec::new(), n_clusters }
    }
}

/// Generated rows, in the units of the data.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Generated {
    /// Cluster that each row was drawn from.
    pub clusters: Vec<u32>,
    /// Samples or means of p(x|z), [count, D].
    pub rows: Vec<f32>,
}

/// What the cells of a generated or imputed row are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cells {
    /// Means of pictures, of values in [0, 1] and of weights; samples of all other tables.
    #[default]
    Auto,
    /// The mean of p(x|z), or the most likely level.
    Mean,
    /// A sample of p(x|z).
    Draw,
}

impl Vade {
    /// Assigns each row to a cluster: the argmax of q(c|x) at the latent mean.
    ///
    /// This and the following methods [match](Vade::matched) columns by name.
    pub fn assign<D: Device>(&self, device: &D, data: &Dataset) -> Result<Assignments> {
        let data = &*self.matched(data)?;
        self.check_magnitude(data, false)?;
        self.assign_visiting(device, data, |pass| self.check_latents(data, pass))
    }

    /// [`Vade::assign`] for the rows of a fit, with a call of `check_interrupt` after each block of rows.
    pub(crate) fn assign_with_interrupt<D: Device>(
        &self,
        device: &D,
        data: &Dataset,
        check_interrupt: Interrupt<'_>,
    ) -> Result<Assignments> {
        self.assign_visiting(device, data, |_| check_interrupt())
    }

    fn assign_visiting<D: Device>(
        &self,
        device: &D,
        data: &Dataset,
        mut visit: impl FnMut(&Pass<'_>) -> Result<()>,
    ) -> Result<Assignments> {
        let (c, k, n) = (self.groups.len(), self.n_clusters(), data.n_rows());
        self.require_memory(device, "assigning the rows", n, k + 1, false)?;
        let data = &*self.matched(data)?;
        let (clusters, probabilities) = (Vec::with_capacity(n), Vec::with_capacity(n * k));
        let mut found = Assignments { clusters, probabilities, n_clusters: k };
        self.for_each_block(device, data, Gamma::Sampled, |pass| {
            visit(&pass)?;
            for joints in pass.log_joints.chunks_exact(c) {
                let probabilities = cluster_probabilities(joints, &self.groups, k);
                found.clusters.push(argmax(&probabilities) as u32);
                found.probabilities.extend(probabilities);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Embeds each row: its latent mean, [N, J].
    pub fn embed<D: Device>(&self, device: &D, data: &Dataset) -> Result<Vec<f32>> {
        let j = self.n_latents();
        self.require_memory(device, "embedding the rows", data.n_rows(), j, false)?;
        let data = &*self.matched(data)?;
        self.check_magnitude(data, false)?;
        let mut latents = Vec::with_capacity(data.n_rows() * j);
        self.for_each_block(device, data, Gamma::Sampled, |pass| {
            self.check_latents(data, &pass)?;
            latents.extend(pass.heads.chunks_exact(2 * j).flat_map(|head| &head[..j]));
            Ok(())
        })?;
        Ok(latents)
    }

    /// Generates `count` rows of a cluster, or of all clusters in the proportions of the prior.
    ///
    /// This is the generative process of the paper: a component of the cluster by its weight, a latent from its
    /// Gaussian, and a sample of p(x|z) or its mean. Where a sample of a column that tells gaps says so, the cell is missing.
    pub fn generate<D: Device>(
        &self,
        device: &D,
        cluster: Option<usize>,
        count: usize,
        seed: u64,
        cells: Cells,
    ) -> Result<Generated> {
        if let Some(c) = cluster.filter(|&c| c >= self.n_clusters()) {
            let must = format!("must be below {}, the number of clusters", self.n_clusters());
            return Err(Error::setting("cluster", c, must));
        }
        if let Some(c) = cluster.filter(|&c| !self.has_components(c)) {
            return Err(Error::setting("cluster", c, "which was merged into another cluster"));
        }
        let (j, key) = (self.n_latents(), Key::new(seed, Stream::Generate, 0));
        self.require_memory(device, "generating the rows", count, 1 + j + self.n_columns(), true)?;
        let (weights, means, variances) = self.components();
        let is_allowed = |m: usize| cluster.is_none_or(|c| self.groups[m] as usize == c);
        let total: f64 = (0..weights.len()).filter(|&m| is_allowed(m)).map(|m| weights[m]).sum();
        let (mut clusters, mut latents) = (Vec::with_capacity(count), Vec::with_capacity(count * j));
        for row in 0..count {
            let mut left = key.uniform(row as u64, 0, 0) * total;
            let mut chosen = None;
            for m in (0..weights.len()).filter(|&m| is_allowed(m)) {
                chosen = Some(m);
                left -= weights[m];
                if left < 0.0 {
                    break;
                }
            }
            let m = chosen.expect("every cluster has a component");
            clusters.push(self.groups[m]);
            for column in 0..j {
                let [a, b, ..] = key.draw(row as u64, 1, column as u32);
                let eps = f64::from(normal_pair(a, b)[0]);
                latents.push((means[m * j + column] + variances[m * j + column].sqrt() * eps) as f32);
            }
        }
        let key = self.draws(cells).then(|| Key::new(seed, Stream::GenerateCells, 0));
        let mut rows = self.decode_with(device, &latents, key)?;
        if let Some(schema) = self.schema().filter(|_| key.is_some()) {
            schema.blank_gaps(&mut rows);
        }
        Ok(Generated { clusters, rows })
    }

    /// Reconstructs each row: the mean of p(x|z) at its latent mean, [N, D], with the columns of the model.
    pub fn reconstruct<D: Device>(&self, device: &D, data: &Dataset) -> Result<Vec<f32>> {
        let columns = self.n_latents() + self.n_columns();
        self.require_memory(device, "reconstructing the rows", data.n_rows(), columns, true)?;
        let data = &*self.matched(data)?;
        self.check_magnitude(data, true)?;
        let latents = self.embed(device, data)?;
        let rows = self.decode(device, &latents)?;
        match rows.iter().position(|x| !x.is_finite()) {
            Some(bad) => Err(self.too_large(data, bad / self.n_columns())),
            None => Ok(rows),
        }
    }

    /// Returns an error for the first row of a block whose latent mean is not finite.
    fn check_latents(&self, data: &Dataset, pass: &Pass<'_>) -> Result<()> {
        let j = self.n_latents();
        let bad = |head: &[f32]| head[..j].iter().any(|z| !z.is_finite());
        match pass.heads.chunks_exact(2 * j).position(bad) {
            Some(i) => Err(self.too_large(data, pass.first + i)),
            None => Ok(()),
        }
    }

    /// Whether generated cells are samples.
    pub(super) fn draws(&self, cells: Cells) -> bool {
        match cells {
            Cells::Draw => true,
            Cells::Mean => false,
            Cells::Auto => {
                let has_noise =
                    !matches!(self.metadata.likelihood, Likelihood::Bernoulli | Likelihood::Multinomial);
                has_noise && self.image().is_none()
            }
        }
    }

    /// p(x|z) of the model.
    pub(super) fn observed(&self) -> Observed<'_> {
        let (likelihood, preparation) = (self.metadata.likelihood, &self.metadata.preparation);
        Observed::new(likelihood, preparation, &self.architecture, &self.values)
    }

    /// Scores each row, in nats; the score is low for rows unlike those of the fit. For tables whose columns have types
    /// it is the log density, estimated by importance sampling, otherwise the ELBO with z at its mean. On small tables of
    /// numbers the density is an even mixture of the model's and that of a Gaussian mixture on the rows.
    ///
    /// DEVIATION(score-at-mean): in this ELBO the reconstruction term is taken at the latent mean instead of a
    /// sample, and q(c|x) at its optimum, so that a row's score depends on the row alone.
    pub fn score<D: Device>(&self, device: &D, data: &Dataset) -> Result<Vec<f64>> {
        self.score_with(device, data, true)
    }

    /// [`Vade::score`] by the networks alone, for comparisons between models of the same rows.
    pub fn network_score<D: Device>(&self, device: &D, data: &Dataset) -> Result<Vec<f64>> {
        self.score_with(device, data, false)
    }

    fn score_with<D: Device>(&self, device: &D, data: &Dataset, with_mixture: bool) -> Result<Vec<f64>> {
        let (j, c, d) = (self.n_latents(), self.groups.len(), self.n_columns());
        // Scores are `f64`: as many bytes as two `f32`.
        self.require_memory(device, "scoring the rows", data.n_rows(), 2, true)?;
        let data = &*self.matched(data)?;
        let (mut latents, mut scores) = (Vec::new(), Vec::with_capacity(data.n_rows()));
        let observed = self.observed();
        if matches!(self.metadata.likelihood, Likelihood::Typed { .. }) {
            return self.typed_scores(device, data, with_mixture);
        }
        self.for_each_block(device, data, Gamma::Exact, |pass| {
            latents.clear();
            latents.extend(pass.heads.chunks_exact(2 * j).flat_map(|head| &head[..j]));
            let outputs = self.outputs(device, &latents)?;
            let width = outputs.len() / (latents.len() / j);
            let each = outputs.par_chunks_exact(width).enumerate();
            scores.par_extend(each.map_init(
                || vec![0.0f32; d],
                |row, (i, output)| {
                    self.metadata.preparation.prepared_row_into(data, pass.first + i, row);
                    let head = &pass.heads[2 * j * i..2 * j * (i + 1)];
                    let joints = &pass.log_joints[c * i..c * (i + 1)];
                    let reconstruction = observed.log_density(row, output);
                    let score = reconstruction + log_sum_exp(joints) + entropy(&head[j..]);
                    // A row whose values overflow is as unlike the data as possible.
                    if score.is_nan() { f64::NEG_INFINITY } else { score }
                },
            ));
            Ok(())
        })?;
        Ok(scores)
    }

    /// Returns an error if the results, `columns` values for each of `n_rows` rows, do not fit into memory together
    /// with the parameters and a block of rows.
    pub(super) fn require_memory<D: Device>(
        &self,
        device: &D,
        what: &str,
        n_rows: usize,
        columns: usize,
        decodes: bool,
    ) -> Result<()> {
        let single = size_of::<f32>();
        let block = pass_len(&self.architecture) + if decodes { decoding_len(&self.architecture) } else { 0 };
        let need = Need::of("the results", product(&[n_rows, columns, single]));
        let need = if device.is_host() {
            let parameters = product(&[self.values.len(), single]);
            need.and("parameters", parameters).and("a block of rows", block.saturating_mul(single as u64))
        } else {
            need
        };
        require(what, &need, "take fewer rows at a time")
    }

    pub(super) fn for_each_block<D: Device>(
        &self,
        device: &D,
        data: &Dataset,
        gamma: Gamma,
        visit: impl FnMut(Pass<'_>) -> Result<()>,
    ) -> Result<()> {
        self.metadata.preparation.check_columns(data)?;
        let params = Params::fixed(device, &self.values)?;
        let rows = device.rows(data.view(&self.metadata.preparation))?;
        let visited =
            blocks(device, &Alone, &rows, data.n_rows(), &self.architecture, Some(gamma), &params, visit);
        data.unless_changed(visited)
    }

    /// Decodes latents into rows, [N, D]: means of p(x|z) in the units of the data.
    ///
    /// # Shapes
    /// - latents: `[N, J]`
    pub fn decode<D: Device>(&self, device: &D, latents: &[f32]) -> Result<Vec<f32>> {
        self.decode_with(device, latents, None)
    }

    /// [`Vade::decode`], or samples of p(x|z) if there is a key.
    pub(super) fn decode_with<D: Device>(
        &self,
        device: &D,
        latents: &[f32],
        key: Option<Key>,
    ) -> Result<Vec<f32>> {
        if !latents.len().is_multiple_of(self.n_latents()) {
            let problem = format!("{} values do not make rows of {}", latents.len(), self.n_latents());
            return Err(Error::data("latents", problem));
        }
        let params = Params::fixed(device, &self.values)?;
        decoded(device, &self.architecture, &params, &self.observed(), latents, key)
    }

    /// The decoder's output for each latent.
    pub(super) fn outputs<D: Device>(&self, device: &D, latents: &[f32]) -> Result<Vec<f32>> {
        outputs(device, &self.architecture, &Params::fixed(device, &self.values)?, latents)
    }
}

fn log_sum_exp(values: &[f32]) -> f64 {
    let greatest = f64::from(values.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    greatest + values.iter().map(|&v| (f64::from(v) - greatest).exp()).sum::<f64>().ln()
}

/// Entropy of q(z|x) from its log variances.
fn entropy(log_variances: &[f32]) -> f64 {
    let limit = LOG_VARIANCE_LIMIT;
    let each = |&l: &f32| 0.5 * (1.0 + std::f64::consts::TAU.ln() + f64::from(l.clamp(-limit, limit)));
    log_variances.iter().map(each).sum()
}
