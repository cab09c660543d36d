//! Typical values and distributions of the chosen columns.

use std::collections::BTreeSet;

use rayon::prelude::*;

use super::columns::{percent, rounded};
use super::distinctions::{Candidate, Clusters, LevelCounts};
use super::ranks::{SortedColumn, quantile};
use super::{ColumnTexts, Distinction, Distribution};
use crate::Result;
use crate::compute::{Device, Likelihood};
use crate::model::{Cells, Vade};

/// Bins of a histogram.
const BINS: usize = 20;
/// The share of rows beyond either end of a histogram, so that a few extreme cells do not squeeze all others into one bin.
const BEYOND: f64 = 0.005;
/// Levels that are shown one by one, at most.
const MOST_LEVELS: usize = 12;
/// The level that stands for all that are not shown.
const OTHERS: &str = "(all others)";

/// Adds typical values and distributions to the chosen columns of each cluster.
pub(super) fn of_all(
    clusters: &Clusters<'_>,
    texts: &ColumnTexts,
    sample: &[u32],
    levels: &LevelCounts,
    chosen: &[Vec<Candidate>],
) -> Vec<Vec<Distinction>> {
    let columns: BTreeSet<usize> = chosen.iter().flatten().map(|candidate| candidate.column).collect();
    let columns: Vec<usize> = columns.into_iter().collect();
    let of_column = |&j: &usize| {
        let sorted = (!levels.contains_key(&j))
            .then(|| SortedColumn::of(clusters.data, sample, clusters.of_rows, clusters.k, j));
        let mut made = Vec::new();
        for (cluster, candidates) in chosen.iter().enumerate() {
            for (rank, candidate) in candidates.iter().enumerate().filter(|(_, c)| c.column == j) {
                let distinction = match (&sorted, candidate.level) {
                    (Some(sorted), _) => of_numbers(clusters, texts, sorted, candidate, cluster),
                    (None, level) => {
                        let (counts, level) = (&levels[&j], level.unwrap_or(0));
                        of_level(texts, counts, clusters.k, candidate, level, cluster)
                    }
                };
                made.push((cluster, rank, distinction));
            }
        }
        made
    };
    let mut all: Vec<(usize, usize, Distinction)> = columns.par_iter().flat_map_iter(of_column).collect();
    all.sort_by_key(|&(cluster, rank, _)| (cluster, rank));
    let mut by_cluster = vec![Vec::new(); chosen.len()];
    all.into_iter().for_each(|(cluster, _, distinction)| by_cluster[cluster].push(distinction));
    by_cluster
}

/// A column of numbers, dates or ordered levels.
fn of_numbers(
    clusters: &Clusters<'_>,
    texts: &ColumnTexts,
    sorted: &SortedColumn,
    candidate: &Candidate,
    cluster: usize,
) -> Distinction {
    let &Candidate { column, level, difference, auc } = candidate;
    let name = texts.name(column).to_string();
    if texts.is_amount(column) && clusters.is_term(column) {
        let (texts, distribution) = of_term(clusters, column, cluster);
        let [inside, outside] = texts;
        return Distinction { name, column, level, difference, auc, inside, outside, distribution };
    }
    let parts = [sorted.values(|k| k == cluster), sorted.values(|k| k != cluster)];
    let median = |values: &[(f64, usize)]| texts.rounded(column, quantile(values, 0.5).unwrap_or(f64::NAN));
    let [inside, outside] = [median(&parts[0]), median(&parts[1])];
    let names = texts.levels(column);
    let distribution = if (1..=MOST_LEVELS).contains(&names.len()) {
        let shares = parts.map(|values| {
            let mut counts = vec![0; names.len()];
            values.iter().for_each(|&(x, n)| counts[(x as usize).min(names.len() - 1)] += n);
            shares(&counts)
        });
        let [inside, outside] = shares;
        Distribution::Levels { names: names.to_vec(), inside, outside, generated: Vec::new() }
    } else {
        let all = sorted.values(|_| true);
        let end = |share: f64| quantile(&all, share).unwrap_or(0.0);
        let range = [end(BEYOND), end(1.0 - BEYOND)];
        let labels = range.map(|x| texts.rounded(column, x));
        let (range, bins) = bins_for(&all, range);
        let [inside, outside] = parts.map(|values| histogram(values.into_iter(), range, bins));
        Distribution::Histogram { range, labels, inside, outside, generated: Vec::new() }
    };
    Distinction { name, column, level, difference, auc, inside, outside, distribution }
}

/// A column that is mostly zero.
fn of_term(clusters: &Clusters<'_>, column: usize, cluster: usize) -> ([String; 2], Distribution) {
    let parts = clusters.parts(column, cluster);
    // Half a row more on either side keeps the odds finite.
    let log_odds = |part: super::distinctions::Part| ((part.above + 0.5) / (part.n - part.above + 0.5)).ln();
    let [inside, outside] = parts.map(|part| [part.above / part.n, part.mean]);
    let text = |[share, mean]: [f64; 2]| format!("above zero in {}, mean {}", percent(share), rounded(mean));
    let log_odds = log_odds(parts[0]) - log_odds(parts[1]);
    ([inside, outside].map(text), Distribution::Term { inside, outside, log_odds })
}

/// A level of a column without order.
fn of_level(
    texts: &ColumnTexts,
    counts: &[usize],
    k: usize,
    candidate: &Candidate,
    level: usize,
    cluster: usize,
) -> Distinction {
    let &Candidate { column, difference, auc, .. } = candidate;
    let all_names = texts.levels(column);
    let total = |level: usize| counts[level * k..(level + 1) * k].iter().sum::<usize>();
    let mut shown: Vec<usize> = (0..all_names.len()).collect();
    if shown.len() > MOST_LEVELS {
        shown.sort_by_key(|&other| (other != level, std::cmp::Reverse(total(other))));
        shown.truncate(MOST_LEVELS - 1);
        shown.sort_unstable();
    }
    let mut names: Vec<String> = shown.iter().map(|&level| all_names[level].clone()).collect();
    let inside_of = |level: usize| counts[level * k + cluster];
    let parts: [Vec<usize>; 2] = [
        (0..all_names.len()).map(inside_of).collect(),
        (0..all_names.len()).map(|level| total(level) - inside_of(level)).collect(),
    ];
    let [inside, outside] = parts.map(|counts| {
        let mut visible: Vec<usize> = shown.iter().map(|&level| counts[level]).collect();
        if shown.len() < counts.len() {
            visible.push(counts.iter().sum::<usize>() - visible.iter().sum::<usize>());
        }
        (percent(counts[level] as f64 / counts.iter().sum::<usize>() as f64), shares(&visible))
    });
    if shown.len() < all_names.len() {
        names.push(OTHERS.to_string());
    }
    let name = format!("{}: {}", texts.name(column), all_names[level]);
    let distribution =
        Distribution::Levels { names, inside: inside.1, outside: outside.1, generated: Vec::new() };
    let (inside, outside, level) = (inside.0, outside.0, Some(level));
    Distinction { name, column, level, difference, auc, inside, outside, distribution }
}

/// One bin per whole number if there are few of them, so that no bin falls between two; otherwise the usual number.
fn bins_for(values: &[(f64, usize)], [low, high]: [f64; 2]) -> ([f64; 2], usize) {
    let is_few = high - low < 2.0 * BINS as f64;
    if is_few && values.iter().all(|(x, _)| x.fract() == 0.0) {
        return ([low - 0.5, high + 0.5], (high - low) as usize + 1);
    }
    ([low, high], BINS)
}

/// Shares of rows in bins of equal width.
fn histogram(values: impl Iterator<Item = (f64, usize)>, [low, high]: [f64; 2], bins: usize) -> Vec<f32> {
    let mut counts = vec![0; bins];
    let width = (high - low) / bins as f64;
    for (x, n) in values {
        let bin = if width > 0.0 { ((x - low) / width).max(0.0) as usize } else { 0 };
        counts[bin.min(bins - 1)] += n;
    }
    shares(&counts)
}

/// Counts as shares; empty if there are none.
fn shares(counts: &[usize]) -> Vec<f32> {
    let total: usize = counts.iter().sum();
    if total == 0 { Vec::new() } else { counts.iter().map(|&n| (n as f64 / total as f64) as f32).collect() }
}

/// Adds the distributions of generated rows, which should look like those inside. Only for tables whose generated rows are
/// samples like the rows themselves: means are narrower.
pub(super) fn add_generated<D: Device>(
    model: &Vade,
    device: &D,
    n_rows: usize,
    columns: &mut [Vec<Distinction>],
) -> Result<()> {
    let are_means = matches!(model.metadata().likelihood, Likelihood::Bernoulli | Likelihood::Multinomial);
    if n_rows == 0 || are_means || model.image().is_some() {
        return Ok(());
    }
    let (d, texts) = (model.n_columns(), ColumnTexts::new(model));
    for (cluster, distinctions) in columns.iter_mut().enumerate().filter(|&(k, _)| model.has_components(k)) {
        let rows = model.generate(device, Some(cluster), n_rows, 0, Cells::Draw)?.rows;
        for Distinction { column, distribution, .. } in distinctions {
            let cells = rows.chunks_exact(d).map(|row| f64::from(row[*column]));
            match distribution {
                Distribution::Histogram { range, inside, generated, .. } => {
                    let values = cells.map(|x| (x, usize::from(x.is_finite())));
                    *generated = histogram(values, *range, inside.len().max(1));
                }
                Distribution::Levels { names, generated, .. } => {
                    let mut counts = vec![0; names.len()];
                    for x in cells.filter(|x| !x.is_nan()) {
                        let text = texts.text(*column, x);
                        let shown = names.iter().position(|name| *name == text);
                        counts[shown.unwrap_or(names.len() - 1)] += 1;
                    }
                    *generated = shares(&counts);
                }
                Distribution::Term { .. } => {}
            }
        }
    }
    Ok(())
}
