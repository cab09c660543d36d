//! log p(x|z) from the decoder's output, in double precision as the library computes it.

use std::f64::consts::TAU;

use pervade::compute::{
    ColumnFamily, DECODER_LOG_VARIANCE_LIMIT, LEAST_LOG_VARIANCE, LOG_DISPERSION_LIMIT, LOG_MEAN_LIMIT,
    Likelihood, TypedColumn,
};

use super::graph::{Element, Graph, Tensor, Value};
use super::prepare::Prepared;

/// log p(x|z) of rows whose columns share a family. `x` and `output` are in double precision. `[batch]`
pub(super) fn shared(
    g: &mut Graph,
    likelihood: Likelihood,
    scales: &[f32],
    x: &str,
    output: &str,
    d: usize,
) -> Value {
    let log_tau = TAU.ln();
    let cells = match likelihood {
        Likelihood::Bernoulli => bernoulli(g, x, output),
        Likelihood::GaussianFixed { variance } => {
            let v = f64::from(variance);
            let (inverse, constant) = (g.double(1.0 / v), g.double(log_tau + v.ln()));
            let error = g.sub(x, output);
            let square = g.mul(&error, &error);
            let scaled = g.mul(&square, &inverse);
            let sum = g.add(&scaled, &constant);
            let half = g.double(-0.5);
            g.mul(&sum, &half)
        }
        Likelihood::Gaussian => {
            let limit = f64::from(DECODER_LOG_VARIANCE_LIMIT);
            let [low, high, constant] = [-limit, limit, log_tau].map(|x| g.double(x));
            let means = g.columns(output, &(0..d).collect::<Vec<usize>>());
            let logs = g.columns(output, &(d..2 * d).collect::<Vec<usize>>());
            let logs = g.clip(&logs, &low, &high);
            let negative = g.op("Neg", &[&logs]);
            let (precision, error) = (g.op("Exp", &[&negative]), g.sub(x, &means));
            let square = g.mul(&error, &error);
            let scaled = g.mul(&square, &precision);
            let sum = g.add(&scaled, &logs);
            let sum = g.add(&sum, &constant);
            let half = g.double(-0.5);
            g.mul(&sum, &half)
        }
        Likelihood::Counts => return counts(g, scales, x, output),
        // Typed tables do not come here.
        Likelihood::Multinomial | Likelihood::Typed { .. } => {
            let (log_sum, axis) = (g.log_sum_exp(output, 1), g.integers(&[1]));
            let log_sum = g.op("Unsqueeze", &[&log_sum, &axis]);
            let logs = g.sub(output, &log_sum);
            g.mul(x, &logs)
        }
    };
    g.sum(&cells, 1, false)
}

/// x o - softplus(o).
fn bernoulli(g: &mut Graph, x: &str, output: &str) -> Value {
    let (zero, one) = (g.double(0.0), g.double(1.0));
    let size = g.op("Abs", &[output]);
    let negative = g.op("Neg", &[&size]);
    let power = g.op("Exp", &[&negative]);
    let sum = g.add(&power, &one);
    let (log, positive) = (g.op("Log", &[&sum]), g.op("Max", &[output, &zero]));
    let (softplus, product) = (g.add(&positive, &log), g.mul(x, output));
    g.sub(&product, &softplus)
}

/// Rows of counts, whose sum is given; zero for rows of zeros. `[batch]`
fn counts(g: &mut Graph, scales: &[f32], x: &str, output: &str) -> Value {
    let sum = g.sum(x, 1, true);
    let (log, axis) = (g.op("Log", &[&sum]), g.integers(&[1]));
    let log_sum = g.log_sum_exp(output, 1);
    let log_sum = g.op("Unsqueeze", &[&log_sum, &axis]);
    let factor = g.sub(&log, &log_sum);
    let log_mean = g.add(output, &factor);
    let counts = Counts::new(g, scales, x);
    let (varying, coefficient) = (counts.varying(g, &log_mean), counts.log_coefficient(g));
    let cells = g.add(&varying, &coefficient);
    let total = g.sum(&cells, 1, true);
    let zero = g.double(0.0);
    let is_some = g.op("Greater", &[&sum, &zero]);
    let total = g.op("Where", &[&is_some, &total, &zero]);
    g.op("Squeeze", &[&total, &axis])
}

/// Cells that are counts.
struct Counts {
    /// Counts of at least zero. `[batch, columns]`
    k: Value,
    /// Dispersions and their logarithms. `[columns]`
    dispersions: Vec<f64>,
    log_dispersions: Vec<f64>,
}

impl Counts {
    fn new(g: &mut Graph, scales: &[f32], x: &str) -> Self {
        let limit = LOG_DISPERSION_LIMIT;
        let log_dispersions: Vec<f64> = scales.iter().map(|s| f64::from(s.clamp(-limit, limit))).collect();
        let zero = g.double(0.0);
        let k = g.op("Max", &[x, &zero]);
        Self { k, dispersions: log_dispersions.iter().map(|l| l.exp()).collect(), log_dispersions }
    }

    /// What depends on the mean m: k ln(m / r) - (k + r) ln(1 + m / r).
    fn varying(&self, g: &mut Graph, log_mean: &str) -> Value {
        let [low, high, one] = [-LOG_MEAN_LIMIT, LOG_MEAN_LIMIT, 1.0].map(|x| g.double(x));
        let (logs, dispersions) = (g.doubles(&self.log_dispersions), g.doubles(&self.dispersions));
        let log_mean = g.clip(log_mean, &low, &high);
        let log_ratio = g.sub(&log_mean, &logs);
        let ratio = g.op("Exp", &[&log_ratio]);
        let sum = g.add(&ratio, &one);
        let (surprise, first) = (g.op("Log", &[&sum]), g.mul(&self.k, &log_ratio));
        let both = g.add(&self.k, &dispersions);
        let second = g.mul(&both, &surprise);
        g.sub(&first, &second)
    }

    /// ln of Gamma(k + r) / (Gamma(r) k!).
    fn log_coefficient(&self, g: &mut Graph) -> Value {
        let (r, one) =
            (g.constant(&[1, self.dispersions.len()], &Tensor::Doubles(&self.dispersions)), g.double(1.0));
        let (sum, next) = (g.add(&self.k, &r), g.add(&self.k, &one));
        let [above, below, factorial] = [&sum, &r, &next].map(|x| ln_gamma(g, x));
        let difference = g.sub(&above, &below);
        g.sub(&difference, &factorial)
    }
}

/// ln Gamma(x) for x > 0: Stirling's series at t = x + 10, less the logarithms of x, x + 1, ... x + 9, whose product is
/// y (y + 8) (y + 14) (y + 18) (y + 20) with y = x (x + 9).
fn ln_gamma(g: &mut Graph, x: &str) -> Value {
    let (nine, ten) = (g.double(9.0), g.double(10.0));
    let next = g.add(x, &nine);
    let y = g.mul(x, &next);
    let mut product = y.clone();
    for more in [8.0, 14.0, 18.0, 20.0] {
        let more = g.double(more);
        let factor = g.add(&y, &more);
        product = g.mul(&product, &factor);
    }
    let (log_product, t) = (g.op("Log", &[&product]), g.add(x, &ten));
    let inverse = g.op("Reciprocal", &[&t]);
    let square = g.mul(&inverse, &inverse);
    // 1/12, -1/360, 1/1260, -1/1680: the series in the square of 1/t, from its end.
    let mut series = g.double(-1.0 / 1680.0);
    for coefficient in [1.0 / 1260.0, -1.0 / 360.0, 1.0 / 12.0] {
        let (coefficient, scaled) = (g.double(coefficient), g.mul(&series, &square));
        series = g.add(&scaled, &coefficient);
    }
    let (tail, half, constant) = (g.mul(&series, &inverse), g.double(0.5), g.double(0.5 * TAU.ln()));
    let (less, log) = (g.sub(&t, &half), g.op("Log", &[&t]));
    let leading = g.mul(&less, &log);
    let leading = g.sub(&leading, &t);
    let rest = g.add(&tail, &constant);
    let sum = g.add(&leading, &rest);
    g.sub(&sum, &log_product)
}

/// What log p(x|z) of typed columns needs of the rows: computed once, then used for every sample of z.
pub(super) struct TypedTerms {
    /// What does not depend on z. `[batch]`
    pub(super) fixed: Value,
    gaussian: Option<Family>,
    count: Option<(Family, Counts)>,
    bernoulli: Option<Family>,
    categorical: Option<Categories>,
}

/// The columns of one family.
struct Family {
    columns: Vec<TypedColumn>,
    /// `[batch, columns]`
    x: Value,
    /// Weights of the observed cells, zero for missing ones. `[batch, columns]`
    weights: Value,
}

/// The columns with levels.
struct Categories {
    columns: Vec<TypedColumn>,
    weights: Value,
    /// Weights of the levels that cells have, in the order of the outputs. `[batch, outputs of these columns]`
    indicators: Value,
}

impl TypedTerms {
    /// Adds what does not depend on z to the graph.
    pub(super) fn new(g: &mut Graph, columns: &[TypedColumn], scales: &[f32], prepared: &Prepared) -> Self {
        let (zero, mut fixed) = (g.float(0.0), Vec::new());
        let is_missing = prepared.is_missing.clone().unwrap_or_default();
        let filled = g.op("Where", &[&is_missing, &zero, &prepared.cells]);
        let filled = g.cast(&filled, Element::Double);
        let is_observed = g.op("Not", &[&is_missing]);
        let observed = g.cast(&is_observed, Element::Double);
        let family = |g: &mut Graph, is: fn(&ColumnFamily) -> bool| {
            let of: Vec<usize> = (0..columns.len()).filter(|&j| is(&columns[j].family)).collect();
            let chosen: Vec<TypedColumn> = of.iter().map(|&j| columns[j]).collect();
            (!of.is_empty()).then(|| {
                let weights = g.doubles(&chosen.iter().map(|c| f64::from(c.weight)).collect::<Vec<f64>>());
                let (x, observed) = (g.columns(&filled, &of), g.columns(&observed, &of));
                Family { columns: chosen, x, weights: g.mul(&observed, &weights) }
            })
        };
        let scale = |column: &TypedColumn| column.scale.map_or(0.0, |scale| scales[scale as usize]);
        let gaussian = family(g, |family| *family == ColumnFamily::Gaussian).map(|family| {
            let logs: Vec<f64> =
                family.columns.iter().map(|c| f64::from(scale(c).max(LEAST_LOG_VARIANCE))).collect();
            let constants = g.doubles(&logs.iter().map(|l| -0.5 * (TAU.ln() + l)).collect::<Vec<f64>>());
            let precisions = g.doubles(&logs.iter().map(|l| -0.5 * (-l).exp()).collect::<Vec<f64>>());
            let constants = g.mul(&family.weights, &constants);
            fixed.push(g.sum(&constants, 1, false));
            Family { weights: g.mul(&family.weights, &precisions), ..family }
        });
        let count = family(g, |family| *family == ColumnFamily::Count).map(|family| {
            let scales: Vec<f32> = family.columns.iter().map(scale).collect();
            let counts = Counts::new(g, &scales, &family.x);
            let coefficients = counts.log_coefficient(g);
            let weighted = g.mul(&coefficients, &family.weights);
            fixed.push(g.sum(&weighted, 1, false));
            (family, counts)
        });
        let bernoulli = family(g, |family| *family == ColumnFamily::Bernoulli);
        let categorical = family(g, |family| matches!(family, ColumnFamily::Categorical { .. }))
            .map(|family| Categories::new(g, family));
        let fixed = fixed.into_iter().reduce(|a, b| g.add(&a, &b));
        let fixed = fixed.unwrap_or_else(|| g.double(0.0));
        Self { fixed, gaussian, count, bernoulli, categorical }
    }

    /// What depends on z, from the decoder's output in double precision. `[batch]`
    pub(super) fn varying(&self, g: &mut Graph, output: &str) -> Value {
        let of = |family: &Family| family.columns.iter().map(|c| c.output as usize).collect::<Vec<usize>>();
        let mut terms = Vec::new();
        if let Some(family) = &self.gaussian {
            let means = g.columns(output, &of(family));
            let error = g.sub(&family.x, &means);
            let square = g.mul(&error, &error);
            terms.push(g.mul(&square, &family.weights));
        }
        if let Some((family, counts)) = &self.count {
            let each =
                |value: fn(&TypedColumn) -> f64| family.columns.iter().map(value).collect::<Vec<f64>>();
            let inverses = g.doubles(&each(|c| 1.0 / f64::from(c.factor)));
            let shifts = g.doubles(&each(|c| f64::from(c.shift)));
            let outputs = g.columns(output, &of(family));
            let scaled = g.mul(&outputs, &inverses);
            let log_mean = g.add(&scaled, &shifts);
            let cells = counts.varying(g, &log_mean);
            terms.push(g.mul(&cells, &family.weights));
        }
        if let Some(family) = &self.bernoulli {
            let logits = g.columns(output, &of(family));
            let cells = bernoulli(g, &family.x, &logits);
            terms.push(g.mul(&cells, &family.weights));
        }
        if let Some(categories) = &self.categorical {
            terms.extend(categories.varying(g, output));
        }
        let all = g.concat(&terms);
        g.sum(&all, 1, false)
    }
}

/// Outputs of categories are padded with this logit to the largest number of levels.
const PADDING: f64 = -1e30;

impl Categories {
    fn new(g: &mut Graph, family: Family) -> Self {
        let each = family.columns.iter().enumerate();
        let levels: Vec<(usize, f64)> =
            each.flat_map(|(j, c)| (0..c.n_outputs()).map(move |level| (j, level as f64))).collect();
        let of: Vec<usize> = levels.iter().map(|(j, _)| *j).collect();
        let (x, weights) = (g.columns(&family.x, &of), g.columns(&family.weights, &of));
        let levels = g.doubles(&levels.iter().map(|(_, level)| *level).collect::<Vec<f64>>());
        let is_level = g.op("Equal", &[&x, &levels]);
        let is_level = g.cast(&is_level, Element::Double);
        Self { columns: family.columns, weights: family.weights, indicators: g.mul(&is_level, &weights) }
    }

    /// The logits of the levels that cells have, less the normalisation of each column.
    fn varying(&self, g: &mut Graph, output: &str) -> [Value; 2] {
        let outputs = |c: &TypedColumn| c.output as usize..c.output as usize + c.n_outputs();
        let of: Vec<usize> = self.columns.iter().flat_map(outputs).collect();
        let logits = g.columns(output, &of);
        let chosen = g.mul(&logits, &self.indicators);
        let (pads, padding) = (g.integers(&[0, 0, 0, 1]), g.double(PADDING));
        let padded = g.op("Pad", &[&logits, &pads, &padding]);
        let most = self.columns.iter().map(TypedColumn::n_outputs).max().unwrap_or(0);
        let (mut first, mut at) = (0, Vec::new());
        for column in &self.columns {
            let n = column.n_outputs();
            at.extend((0..most).map(|level| if level < n { first + level } else { of.len() }));
            first += n;
        }
        let shape = g.integers(&[-1, self.columns.len() as i64, most as i64]);
        let blocks = g.columns(&padded, &at);
        let blocks = g.op("Reshape", &[&blocks, &shape]);
        let log_sums = g.log_sum_exp(&blocks, 2);
        let weighted = g.mul(&log_sums, &self.weights);
        [chosen, g.op("Neg", &[&weighted])]
    }
}
