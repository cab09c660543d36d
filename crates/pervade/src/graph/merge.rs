//! Greedy merging of many parts into few groups, by modularity or by Ward's criterion.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Graph, PartGraph};
use crate::rows::check_latents;
use crate::{Error, Result};

/// If modularity stops rising at more than this many times K groups, K is coarser than the communities of the graph,
/// and the rest is merged by Ward's criterion. Measured: up to 1.4 the two numbers mean the same level.
pub const WARD_ABOVE_RATIO: f64 = 2.0;

/// The number of groups to merge into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// This many.
    Fixed(usize),
    /// The number at which modularity stops rising.
    Auto,
}

/// Statistics that merging needs: edges between parts, their sizes and their means.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Edges between the parts.
    pub graph: PartGraph,
    /// Rows in each part. `[C]`
    pub sizes: Vec<f64>,
    /// Mean of the rows of each part, or of its component if it has no rows. `[C, J]`
    pub means: Vec<f64>,
    /// J
    pub n_latent: usize,
}

/// The assignment of parts to groups.
#[derive(Clone, Debug, PartialEq)]
pub struct Grouping {
    /// The group of each part, `0..n_groups`; group 0 has the most rows. `[C]`
    pub groups: Vec<u32>,
    /// K
    pub n_groups: usize,
    /// Modularity of the groups on the graph.
    pub modularity: f64,
    /// The number of groups at which modularity stops rising.
    pub natural_number: usize,
    /// Whether the last merges used Ward's criterion.
    pub by_ward: bool,
}

impl Parts {
    /// Computes the statistics of the parts given by `assignment`.
    ///
    /// # Shapes
    /// - latents: `[N, J]`, assignment: `[N]`, component_means: `[C, J]`
    pub fn count(
        graph: &Graph,
        latents: &[f32],
        n_latent: usize,
        assignment: &[u32],
        component_means: &[f64],
    ) -> Result<Self> {
        let n_rows = check_latents(latents, n_latent)?;
        if assignment.len() != n_rows {
            let must = format!("must be {n_rows}, one for each row");
            return Err(Error::setting("assignment", format!("{} entries", assignment.len()), must));
        }
        let n_parts = component_means.len() / n_latent;
        let graph = PartGraph::count(graph, assignment, n_parts)?;
        let mut sizes = vec![0.0; n_parts];
        let mut sums = vec![0.0; n_parts * n_latent];
        for (&part, z) in assignment.iter().zip(latents.chunks_exact(n_latent)) {
            sizes[part as usize] += 1.0;
            for j in 0..n_latent {
                sums[part as usize * n_latent + j] += f64::from(z[j]);
            }
        }
        let mean = |index: usize| match sizes[index / n_latent] {
            0.0 => component_means[index],
            size => sums[index] / size,
        };
        let means = (0..n_parts * n_latent).map(mean).collect();
        Ok(Self { graph, sizes, means, n_latent })
    }
}

/// Merges the parts, best pair first, until the target is reached.
///
/// Parts without nodes in the graph (no rows, or none in its sample) are not merged; each joins the group of the part
/// with the nearest mean.
pub fn group(parts: &Parts, target: Target) -> Result<Grouping> {
    group_until(parts, target, &AtomicBool::new(false))
}

/// An error once the flag is set, which interrupts a long grouping.
pub(super) fn check_stop(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted { stage: "grouping the components", epoch: 0 });
    }
    Ok(())
}

/// Like [`group`]; returns an error once `stop` is set.
pub(crate) fn group_until(parts: &Parts, target: Target, stop: &AtomicBool) -> Result<Grouping> {
    let mut natural = Merging::new(parts);
    let n_touched = natural.alive.len();
    while natural.merge_best(Score::Modularity { only_if_rising: true }) {
        check_stop(stop)?;
    }
    let natural_number = natural.alive.len();
    let merged = match target {
        Target::Auto if n_touched > 0 => natural,
        Target::Fixed(k) if (1..=n_touched).contains(&k) => {
            let far_below = natural_number as f64 > WARD_ABOVE_RATIO * k as f64;
            let score = if far_below { Score::Ward } else { Score::Modularity { only_if_rising: false } };
            let mut merged = if natural_number >= k { natural } else { Merging::new(parts) };
            while merged.alive.len() > k {
                merged.merge_best(score);
                check_stop(stop)?;
            }
            merged
        }
        Target::Auto => return Err(Error::setting("components", 0, "must leave a part with rows to merge")),
        Target::Fixed(k) => {
            let must = format!("must be between 1 and {n_touched}, the number of components that hold rows");
            return Err(
                Error::setting("clusters", k, must).with_hint("use more components or fewer clusters")
            );
        }
    };
    Ok(merged.grouping(parts, natural_number))
}

/// The groupings of [`group_until`] into 2, 3, ... and at most `max` groups, with no more merging than for three of them.
pub(crate) fn group_each_until(parts: &Parts, max: usize, stop: &AtomicBool) -> Result<Vec<Grouping>> {
    let mut merged = Merging::new(parts);
    let mut groupings = Vec::new();
    let mut merging = true;
    while merging {
        check_stop(stop)?;
        if (2..=max).contains(&merged.alive.len()) {
            groupings.push(merged.grouping(parts, 0));
        }
        merging = merged.merge_best(Score::Modularity { only_if_rising: true });
    }
    let natural_number = merged.alive.len();
    let is_far_below = |k: usize| natural_number as f64 > WARD_ABOVE_RATIO * k as f64;
    let (mut by_modularity, mut by_ward) = (merged.clone(), merged);
    groupings.iter_mut().for_each(|grouping| grouping.natural_number = natural_number);
    for k in (2..natural_number).rev() {
        check_stop(stop)?;
        by_ward.merge_best(Score::Ward);
        if !is_far_below(k) {
            by_modularity.merge_best(Score::Modularity { only_if_rising: false });
        }
        if k <= max {
            let merged = if is_far_below(k) { &by_ward } else { &by_modularity };
            groupings.push(merged.grouping(parts, natural_number));
        }
    }
    groupings.reverse();
    Ok(groupings)
}

/// All merges, down to one group: modularity before the first of them, then each pair of groups with the modularity after it.
/// Up to the natural number of groups they are those of [`group_until`], then too if `by_ward` is that of its result.
pub(crate) fn merge_history(
    parts: &Parts,
    by_ward: bool,
    stop: &AtomicBool,
) -> Result<(f64, Vec<([usize; 2], f64)>)> {
    let mut merging = Merging::new(parts);
    let (first, mut history) = (merging.modularity(), Vec::new());
    let after = if by_ward { Score::Ward } else { Score::Modularity { only_if_rising: false } };
    for score in [Score::Modularity { only_if_rising: true }, after] {
        while let Some(pair) = merging.merge_next(score) {
            check_stop(stop)?;
            history.push((pair, merging.modularity()));
        }
    }
    Ok((first, history))
}

/// The score by which the next pair to merge is chosen.
#[derive(Clone, Copy)]
pub(super) enum Score {
    /// [`modularity_gain`], highest first.
    Modularity { only_if_rising: bool },
    /// [`growth_of_squares`], lowest first.
    Ward,
}

/// Groups during merging; each is identified by its first part.
#[derive(Clone)]
pub(super) struct Merging {
    /// The groups, in increasing order.
    pub(super) alive: Vec<usize>,
    /// The group of each part. `[C]`
    pub(super) leader: Vec<usize>,
    graph: PartGraph,
    volumes: Vec<f64>,
    total_volume: f64,
    sizes: Vec<f64>,
    means: Vec<f64>,
    n_latent: usize,
}

impl Merging {
    pub(super) fn new(parts: &Parts) -> Self {
        let volumes = parts.graph.volumes();
        Self {
            alive: (0..parts.sizes.len()).filter(|&part| volumes[part] > 0.0).collect(),
            leader: (0..parts.sizes.len()).collect(),
            graph: parts.graph.clone(),
            total_volume: volumes.iter().sum(),
            volumes,
            sizes: parts.sizes.clone(),
            means: parts.means.clone(),
            n_latent: parts.n_latent,
        }
    }

    /// Merges the best pair; ties go to the first. False if no pair is left to merge.
    pub(super) fn merge_best(&mut self, score: Score) -> bool {
        self.merge_next(score).is_some()
    }

    /// Merges the best pair and returns it.
    fn merge_next(&mut self, score: Score) -> Option<[usize; 2]> {
        let mut best: Option<(f64, usize, usize)> = None;
        for (index, &i) in self.alive.iter().enumerate() {
            for &j in &self.alive[index + 1..] {
                let value = self.score(score, i, j);
                if best.is_none_or(|(highest, ..)| value > highest) {
                    best = Some((value, i, j));
                }
            }
        }
        let (value, i, j) = best?;
        if matches!(score, Score::Modularity { only_if_rising: true }) && value <= 0.0 {
            return None;
        }
        self.merge(i, j);
        Some([i, j])
    }

    /// Modularity of the groups so far.
    fn modularity(&self) -> f64 {
        let n = self.graph.n_parts;
        let of = |&group: &usize| {
            self.graph.edges[group * n + group] / self.total_volume
                - (self.volumes[group] / self.total_volume).powi(2)
        };
        self.alive.iter().map(of).sum()
    }

    fn score(&self, score: Score, i: usize, j: usize) -> f64 {
        match score {
            Score::Modularity { .. } => {
                let edges = self.graph.edges[i * self.graph.n_parts + j];
                modularity_gain(edges, [i, j].map(|group| self.volumes[group]), self.total_volume)
            }
            Score::Ward => {
                let means = [i, j].map(|group| row(&self.means, group, self.n_latent));
                -growth_of_squares([i, j].map(|group| self.sizes[group]), means)
            }
        }
    }

    /// Merges group `j` into group `i`.
    fn merge(&mut self, i: usize, j: usize) {
        let n = self.graph.n_parts;
        let edges = &mut self.graph.edges;
        (0..n).for_each(|other| edges[i * n + other] += edges[j * n + other]);
        (0..n).for_each(|other| edges[other * n + i] += edges[other * n + j]);
        self.volumes[i] += self.volumes[j];
        let size = self.sizes[i] + self.sizes[j];
        for column in 0..self.n_latent {
            let (mean_i, mean_j) =
                (self.means[i * self.n_latent + column], self.means[j * self.n_latent + column]);
            self.means[i * self.n_latent + column] = (self.sizes[i] * mean_i + self.sizes[j] * mean_j) / size;
        }
        self.sizes[i] = size;
        self.alive.retain(|&group| group != j);
        self.leader.iter_mut().filter(|leader| **leader == j).for_each(|leader| *leader = i);
    }

    /// The groups so far, as a result.
    fn grouping(&self, parts: &Parts, natural_number: usize) -> Grouping {
        let groups = numbered_by_size(&self.groups_of_all(parts), &parts.sizes);
        let modularity = parts.graph.modularity(&groups);
        let n_groups = self.alive.len();
        let by_ward = n_groups < natural_number && natural_number as f64 > WARD_ABOVE_RATIO * n_groups as f64;
        Grouping { groups, n_groups, modularity, natural_number, by_ward }
    }

    /// The group of every part, including those without nodes in the graph. `[C]`
    pub(super) fn groups_of_all(&self, parts: &Parts) -> Vec<usize> {
        let volumes = parts.graph.volumes();
        let touched: Vec<usize> = (0..volumes.len()).filter(|&part| volumes[part] > 0.0).collect();
        let nearest = |part: usize| {
            let mean = |part: usize| row(&parts.means, part, parts.n_latent);
            let distance = |&other: &usize| square_distance(mean(part), mean(other));
            *touched.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).expect("a part with edges")
        };
        let stands_for = |part: usize| if volumes[part] > 0.0 { part } else { nearest(part) };
        (0..volumes.len()).map(|part| self.leader[stands_for(part)]).collect()
    }
}

/// The gain in modularity if two groups are merged: 2 (e_ij / t - a_i a_j / t^2) (Newman, 2004).
pub(super) fn modularity_gain(edges_between: f64, volumes: [f64; 2], total_volume: f64) -> f64 {
    2.0 * (edges_between / total_volume - volumes[0] * volumes[1] / (total_volume * total_volume))
}

/// The growth of the sum of squares: n_i n_j / (n_i + n_j) |mean_i - mean_j|^2 (Ward, 1963).
pub(super) fn growth_of_squares(sizes: [f64; 2], means: [&[f64]; 2]) -> f64 {
    sizes[0] * sizes[1] / (sizes[0] + sizes[1]) * square_distance(means[0], means[1])
}

fn square_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
}

fn row(table: &[f64], i: usize, n_columns: usize) -> &[f64] {
    &table[i * n_columns..(i + 1) * n_columns]
}

/// Renumbers groups from zero by decreasing number of rows; ties go to the group with the first part.
pub(super) fn numbered_by_size(leaders: &[usize], sizes: &[f64]) -> Vec<u32> {
    let mut group_sizes = vec![0.0; leaders.len()];
    leaders.iter().zip(sizes).for_each(|(&leader, size)| group_sizes[leader] += size);
    let mut order: Vec<usize> = leaders.to_vec();
    order.sort_by(|&a, &b| group_sizes[b].total_cmp(&group_sizes[a]).then(a.cmp(&b)));
    order.dedup();
    let mut ids = vec![0; leaders.len()];
    order.iter().enumerate().for_each(|(index, &leader)| ids[leader] = index as u32);
    leaders.iter().map(|&leader| ids[leader]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12, "{a} {b}");
    }

    /// Twelve cliques of three parts on a line, some nearer to each other than others.
    #[test]
    fn each_grouping_equals_that_of_its_number() {
        let n = 36;
        let mean = |part: usize| (part / 3 * 10 + part / 9 * 15 + part % 3) as f64;
        let edges = (0..n * n)
            .map(|i| (100.0 / (1.0 + (mean(i / n) - mean(i % n)).abs()) - 5.0).max(0.0).round())
            .collect();
        let graph = PartGraph { n_parts: n, edges };
        let sizes = (0..n).map(|part| (part % 4 + 1) as f64).collect();
        let parts = Parts { graph, sizes, means: (0..n).map(mean).collect(), n_latent: 1 };
        let stop = AtomicBool::new(false);
        let each = group_each_until(&parts, 30, &stop).unwrap();
        assert_eq!(each.len(), 29);
        for (index, grouping) in each.iter().enumerate() {
            assert_eq!(*grouping, group(&parts, Target::Fixed(index + 2)).unwrap());
        }
        let [some, others] =
            [true, false].map(|by_ward| each.iter().filter(|g| g.by_ward == by_ward).count());
        assert!(some > 0 && others > 0, "{some} by Ward's criterion, {others} by modularity");
        for grouping in &each {
            let (first, history) = merge_history(&parts, grouping.by_ward, &stop).unwrap();
            assert_eq!(history.len(), n - 1, "down to one group");
            assert_close(first, parts.graph.modularity(&(0..n as u32).collect::<Vec<u32>>()));
            let mut leaders: Vec<usize> = (0..n).collect();
            for ([a, b], _) in &history[..n - grouping.n_groups] {
                leaders.iter_mut().filter(|leader| **leader == *b).for_each(|leader| *leader = *a);
            }
            assert_eq!(numbered_by_size(&leaders, &parts.sizes), grouping.groups);
            assert_close(history[n - 1 - grouping.n_groups].1, grouping.modularity);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(matches!(merge_history(&parts, false, &stop), Err(Error::Interrupted { .. })));
        assert!(matches!(group_each_until(&parts, 30, &stop), Err(Error::Interrupted { .. })));
    }
}
