//! The number of clusters if none was given: how stable the clusters are for each number, and which number is picked.
//!
//! The mixture start fits several mixtures to the same latents. Where a number of clusters suits the data, the
//! components of all mixtures are grouped into nearly the same clusters; where it does not, each mixture cuts or joins
//! something else. Modularity alone is no guide: it rises with the number of clusters far beyond that.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::Result;
use crate::graph::{Graph, Grouping, Parts, group_each_until, refine_until};
use crate::metrics;
use crate::mixture::EmFit;
use crate::record::Level;

/// The largest number of clusters that is tried.
const MAX_CLUSTERS: usize = 30;
/// Rows on which clusters are compared.
const SAMPLE_ROWS: usize = 10_000;
/// A level is stable if none of those that differ by at most so many clusters has a higher stability.
const NEIGHBOURHOOD: usize = 2;

/// One of the mixtures, with its clusters for each number.
pub(super) struct Candidate {
    pub(super) fit: EmFit,
    /// The most probable component of each sampled row.
    components: Vec<u32>,
    /// The components grouped into 2, 3, ... clusters.
    groupings: Vec<Grouping>,
}

impl Candidate {
    /// Groups the components of a mixture into each number of clusters, as if that number were given.
    pub(super) fn new(fit: &EmFit, graph: &Graph, latents: &[f32], stop: &AtomicBool) -> Result<Self> {
        let mixture = &fit.mixture;
        let components = mixture.assign(latents)?;
        let parts = Parts::count(graph, latents, mixture.n_latent, &components, &mixture.means)?;
        let mut groupings = group_each_until(&parts, MAX_CLUSTERS, stop)?;
        // Modularity falls above the natural communities: there is nothing to look for.
        groupings.retain(|grouping| grouping.n_groups <= grouping.natural_number);
        let refined = groupings.into_par_iter().map(|grouping| refine_until(&parts, grouping, stop));
        let groupings = refined.collect::<Result<_>>()?;
        let stride = components.len().div_ceil(SAMPLE_ROWS).max(1);
        let components = components.into_iter().step_by(stride).collect();
        Ok(Self { fit: fit.clone(), components, groupings })
    }

    /// The clusters of the sampled rows.
    fn clusters(&self, index: usize) -> Vec<u32> {
        let groups = &self.groupings[index].groups;
        self.components.iter().map(|&component| groups[component as usize]).collect()
    }
}

/// Compares the numbers of clusters up to the natural communities of the mixture that has the fewest, and picks one.
/// Empty if there are not at least two mixtures.
pub(super) fn compare(candidates: &[Candidate]) -> Result<Vec<Level>> {
    let n_levels = candidates.iter().map(|candidate| candidate.groupings.len()).min().unwrap_or(0);
    let level = |index: usize| {
        let partitions: Vec<Vec<u32>> = candidates.iter().map(|c| c.clusters(index)).collect();
        let modularities = candidates.iter().map(|candidate| candidate.groupings[index].modularity);
        let modularity = modularities.sum::<f64>() / candidates.len() as f64;
        let stability = metrics::stability(&partitions)?;
        let clusters = index + 2;
        Ok(stability.map(|stability| Level { clusters, stability, modularity, stable: false, picked: false }))
    };
    let levels: Vec<Option<Level>> = (0..n_levels).into_par_iter().map(level).collect::<Result<_>>()?;
    let mut levels: Vec<Level> = levels.into_iter().flatten().collect();
    mark(&mut levels);
    Ok(levels)
}

/// Marks the stable levels, and the one that is picked: that with the highest stability squared times modularity. Ties
/// go to the smaller number.
///
/// The square gives few clusters, which always have a low modularity, a chance: without it, breast cancer has eight
/// clusters and penguins five.
fn mark(levels: &mut [Level]) {
    let score = |level: &Level| level.stability.max(0.0).powi(2) * level.modularity;
    let higher = |best: usize, i: usize| if score(&levels[i]) > score(&levels[best]) { i } else { best };
    let picked = (0..levels.len()).reduce(higher);
    let is_stable = |i: usize| {
        let (first, last) = (i.saturating_sub(NEIGHBOURHOOD), (i + NEIGHBOURHOOD).min(levels.len() - 1));
        levels[first..=last].iter().all(|other| levels[i].stability >= other.stability)
    };
    let stable: Vec<bool> = (0..levels.len()).map(is_stable).collect();
    for (i, level) in levels.iter_mut().enumerate() {
        level.stable = stable[i];
        level.picked = Some(i) == picked;
    }
}

/// The mixture whose clusters have the highest modularity for the picked number; `None` if there is none.
pub(super) fn best_mixture(candidates: Vec<Candidate>, levels: &[Level]) -> Option<EmFit> {
    let picked = levels.iter().position(|level| level.picked)?;
    let modularity = |candidate: &Candidate| candidate.groupings[picked].modularity;
    let best = candidates
        .into_iter()
        .reduce(|best, next| if modularity(&next) > modularity(&best) { next } else { best });
    best.map(|candidate| candidate.fit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::{Alone, Cpu};
    use crate::graph::GraphOptions;
    use crate::mixture::{EmOptions, fit_scored};
    use crate::seed::{Key, Stream};

    /// Rows of one spherical group per centre, in two latents.
    fn rows(centres: &[[f32; 2]], n_rows: usize) -> Vec<f32> {
        let key = Key::new(3, Stream::Sample, 0);
        let noise = |i: usize, j: usize| {
            let uniform = |k: u64| key.permute(i, 1 << 20, 1000 * k + j as u64) as f32 / (1 << 20) as f32;
            (0..12).map(uniform).sum::<f32>() - 6.0
        };
        (0..n_rows).flat_map(|i| [0, 1].map(|j| centres[i % centres.len()][j] + noise(i, j))).collect()
    }

    fn levels_of(centres: &[[f32; 2]], components: usize, n_mixtures: usize) -> Vec<Level> {
        let (cpu, latents, stop) = (Cpu::new(), rows(centres, 1500), AtomicBool::new(false));
        let key = Key::new(1, Stream::Mixture, 0);
        let graph = Graph::build(&cpu, &latents, 2, &GraphOptions::default(), key).unwrap();
        let mut candidates = Vec::new();
        let mut score = |fit: &EmFit| {
            candidates.push(Candidate::new(fit, &graph, &latents, &stop)?);
            Ok(0.0)
        };
        let options = EmOptions { components, restarts: n_mixtures, ..EmOptions::default() };
        fit_scored(&cpu, &Alone, &latents, 2, &options, key, &mut score, &mut || Ok(())).unwrap();
        compare(&candidates).unwrap()
    }

    fn numbers(levels: &[Level], holds: impl Fn(&Level) -> bool) -> Vec<usize> {
        levels.iter().filter(|level| holds(level)).map(|level| level.clusters).collect()
    }

    #[test]
    fn separate_groups_are_counted() {
        for n_groups in [3, 7] {
            let angle = |i: usize| i as f32 / n_groups as f32 * std::f32::consts::TAU;
            let centre = |i: usize| [angle(i).cos(), angle(i).sin()].map(|x| x * 4.0 * n_groups as f32);
            let centres: Vec<[f32; 2]> = (0..n_groups).map(centre).collect();
            let levels = levels_of(&centres, 30, 6);
            assert_eq!(numbers(&levels, |level| level.picked), [n_groups], "{levels:#?}");
            assert!(levels[n_groups - 2].stable && levels[n_groups - 2].stability > 0.999, "{levels:#?}");
            let more = &levels[n_groups - 1..];
            assert!(more.iter().all(|level| level.stability < 0.95), "more than the groups: {levels:#?}");
        }
    }

    /// Three groups of three: both numbers are stable.
    #[test]
    fn nested_groups_are_two_levels() {
        let corners = [[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]];
        let inner = [[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]];
        let centres: Vec<[f32; 2]> = corners
            .iter()
            .flat_map(|corner| inner.map(|offset| [corner[0] + offset[0], corner[1] + offset[1]]))
            .collect();
        let levels = levels_of(&centres, 36, 6);
        assert_eq!(numbers(&levels, |level| level.picked), [9], "{levels:#?}");
        let stable = numbers(&levels, |level| level.stable && level.stability > 0.999);
        assert!(stable.contains(&3) && stable.contains(&9), "{levels:#?}");
        let between = numbers(&levels, |level| (5..9).contains(&level.clusters) && level.stability < 0.9);
        assert_eq!(between, [5, 6, 7, 8], "{levels:#?}");
    }

    #[test]
    fn one_mixture_cannot_be_compared() {
        assert_eq!(levels_of(&[[0.0, 0.0], [50.0, 0.0]], 12, 1), []);
    }

    #[test]
    fn the_rule_weighs_stability_and_modularity() {
        let level = |(clusters, stability, modularity)| Level {
            clusters,
            stability,
            modularity,
            stable: false,
            picked: false,
        };
        let mark_all = |levels: &[(usize, f64, f64)]| {
            let mut levels: Vec<Level> = levels.iter().copied().map(level).collect();
            mark(&mut levels);
            (numbers(&levels, |level| level.stable), numbers(&levels, |level| level.picked))
        };
        // Stability 0.9 squared is 0.81: modularity must be higher by almost a quarter to outweigh it.
        assert_eq!(mark_all(&[(2, 1.0, 0.5), (3, 0.9, 0.61)]), (vec![2], vec![2]));
        assert_eq!(mark_all(&[(2, 1.0, 0.5), (3, 0.9, 0.62)]), (vec![2], vec![3]));
        // Of equal scores the first is picked; a shoulder is not stable; a negative stability is no merit.
        let many =
            [(2, 0.5, 0.1), (3, 0.8, 0.5), (4, 0.8, 0.5), (5, 0.7, 0.5), (6, 0.7, 0.5), (7, -0.9, 0.9)];
        assert_eq!(mark_all(&many), (vec![3, 4], vec![3]));
        assert_eq!(mark_all(&[]), (vec![], vec![]));
    }
}
