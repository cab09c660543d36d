//! Refinement of a grouping: merging is greedy, and an early merge can turn out wrong.

use std::sync::atomic::AtomicBool;

use super::merge::{
    Grouping, Merging, Parts, Score, check_stop, growth_of_squares, modularity_gain, numbered_by_size,
};
use crate::Result;

/// Maximum number of rounds; each is a gain, and a handful is enough.
const MAX_ROUNDS: usize = 50;
/// Gains below this are rounding.
const MIN_GAIN: f64 = 1e-12;

/// Moves single parts between groups, and merges two groups while splitting a third, until neither raises modularity.
/// In a grouping by Ward's criterion only parts move, as long as the sum of squares falls.
///
/// The second move undoes what merging cannot: two true clusters merged early while another stayed split in half.
/// (USPS, a seed where 3 and 5 were one cluster and 0 two: ACC 0.80.) Under Ward's criterion it would lead away from
/// the graph's communities towards the result of k-means, which is sometimes worse. (HAR, seed 1: ACC 79 % after moves,
/// 70 % at the smallest sum of squares.)
pub fn refine(parts: &Parts, grouping: Grouping) -> Grouping {
    refine_until(parts, grouping, &AtomicBool::new(false)).expect("the flag is never set")
}

/// Like [`refine`]; returns an error once `stop` is set.
pub(crate) fn refine_until(parts: &Parts, grouping: Grouping, stop: &AtomicBool) -> Result<Grouping> {
    let mut work = Refining::new(parts, &grouping, stop);
    for _ in 0..MAX_ROUNDS {
        if !work.move_parts()? && (grouping.by_ward || !work.exchange()?) {
            break;
        }
    }
    // Parts without nodes in the graph follow the part with the nearest mean.
    let mut merged = Merging::new(parts);
    merged.leader = work.groups;
    let groups = numbered_by_size(&merged.groups_of_all(parts), &parts.sizes);
    let modularity = parts.graph.modularity(&groups);
    Ok(Grouping { groups, modularity, ..grouping })
}

/// A grouping during refinement.
struct Refining<'p> {
    parts: &'p Parts,
    /// Parts with nodes in the graph.
    touched: Vec<usize>,
    /// The group of each part. `[C]`
    groups: Vec<usize>,
    n_groups: usize,
    by_ward: bool,
    /// Volume of each part. `[C]`
    volumes: Vec<f64>,
    total: f64,
    stop: &'p AtomicBool,
}

impl<'p> Refining<'p> {
    fn new(parts: &'p Parts, grouping: &Grouping, stop: &'p AtomicBool) -> Self {
        let volumes = parts.graph.volumes();
        Self {
            parts,
            touched: (0..volumes.len()).filter(|&part| volumes[part] > 0.0).collect(),
            groups: grouping.groups.iter().map(|&group| group as usize).collect(),
            n_groups: grouping.n_groups,
            by_ward: grouping.by_ward,
            total: volumes.iter().sum(),
            volumes,
            stop,
        }
    }

    fn members(&self, group: usize) -> Vec<usize> {
        self.touched.iter().copied().filter(|&part| self.groups[part] == group).collect()
    }

    /// The gain of the criterion if two sets become one group.
    fn merge_gain(&self, a: &[usize], b: &[usize]) -> f64 {
        if self.by_ward {
            let [mean_a, mean_b] = [a, b].map(|set| self.mean(set));
            return -growth_of_squares([a, b].map(|set| self.size(set)), [&mean_a, &mean_b]);
        }
        let n = self.parts.graph.n_parts;
        let row = |&i: &usize| b.iter().map(|&j| self.parts.graph.edges[i * n + j]).sum::<f64>();
        let volume = |set: &[usize]| set.iter().map(|&i| self.volumes[i]).sum::<f64>();
        modularity_gain(a.iter().map(row).sum(), [a, b].map(volume), self.total)
    }

    fn size(&self, set: &[usize]) -> f64 {
        set.iter().map(|&i| self.parts.sizes[i]).sum()
    }

    /// The mean of the rows of a set of parts. `[J]`
    fn mean(&self, set: &[usize]) -> Vec<f64> {
        let (n_latent, size) = (self.parts.n_latent, self.size(set));
        let sum = |column: usize| -> f64 {
            set.iter().map(|&i| self.parts.sizes[i] * self.parts.means[i * n_latent + column]).sum()
        };
        (0..n_latent).map(|column| sum(column) / size).collect()
    }

    /// One sweep over the parts, moving each to its best group. True if one moved.
    fn move_parts(&mut self) -> Result<bool> {
        let mut moved = false;
        for index in 0..self.touched.len() {
            check_stop(self.stop)?;
            let part = self.touched[index];
            let from = self.groups[part];
            let without: Vec<Vec<usize>> = (0..self.n_groups)
                .map(|group| self.members(group).into_iter().filter(|&other| other != part).collect())
                .collect();
            if without[from].is_empty() {
                continue;
            }
            let gains: Vec<f64> = without.iter().map(|group| self.merge_gain(&[part], group)).collect();
            let best =
                (0..self.n_groups).fold(from, |best, to| if gains[to] > gains[best] { to } else { best });
            if gains[best] > gains[from] + MIN_GAIN {
                self.groups[part] = best;
                moved = true;
            }
        }
        Ok(moved)
    }

    /// Merges two groups and splits a third if that raises modularity; takes the best choice. True if it did.
    fn exchange(&mut self) -> Result<bool> {
        let members: Vec<Vec<usize>> = (0..self.n_groups).map(|group| self.members(group)).collect();
        let halves: Vec<Option<(Vec<usize>, f64)>> =
            members.iter().map(|group| self.best_split(group)).collect::<Result<_>>()?;
        let mut best: Option<(f64, usize, usize, usize)> = None;
        for a in 0..self.n_groups {
            check_stop(self.stop)?;
            for b in a + 1..self.n_groups {
                let joined = self.merge_gain(&members[a], &members[b]);
                for (c, half) in halves.iter().enumerate().filter(|&(c, _)| c != a && c != b) {
                    let gain = joined + half.as_ref().map_or(f64::NEG_INFINITY, |half| half.1);
                    if gain > best.map_or(MIN_GAIN, |best| best.0) {
                        best = Some((gain, a, b, c));
                    }
                }
            }
        }
        let Some((_, a, b, c)) = best else { return Ok(false) };
        members[b].iter().for_each(|&part| self.groups[part] = a);
        let half = halves[c].as_ref().map_or(&[][..], |half| &half.0);
        half.iter().for_each(|&part| self.groups[part] = b);
        Ok(true)
    }

    /// The half to split off so that modularity loses least, and the gain.
    fn best_split(&self, group: &[usize]) -> Result<Option<(Vec<usize>, f64)>> {
        let mut merging = Merging::new(self.parts);
        merging.alive = group.to_vec();
        while merging.alive.len() > 2 {
            merging.merge_best(Score::Modularity { only_if_rising: false });
            check_stop(self.stop)?;
        }
        let &[first, second] = merging.alive.as_slice() else { return Ok(None) };
        let (stay, leave): (Vec<usize>, Vec<usize>) =
            group.iter().partition(|&&part| merging.leader[part] == first);
        debug_assert!(leave.iter().all(|&part| merging.leader[part] == second));
        Ok(Some((leave.clone(), -self.merge_gain(&stay, &leave))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::PartGraph;

    /// Four cliques of two parts each; the grouping has merged two of them and split a third.
    #[test]
    fn a_wrong_merge_is_undone() {
        let clique = |part: usize| part / 2;
        let edges: Vec<f64> = (0..64)
            .map(|i| match (i / 8, i % 8) {
                (a, b) if a == b => 40.0,
                (a, b) if clique(a) == clique(b) => 30.0,
                _ => 1.0,
            })
            .collect();
        let graph = PartGraph { n_parts: 8, edges };
        let parts = Parts { graph, sizes: vec![10.0; 8], means: vec![0.0; 8], n_latent: 1 };
        let wrong = vec![0, 0, 0, 0, 1, 2, 3, 3];
        let modularity = parts.graph.modularity(&wrong);
        let start = Grouping { groups: wrong, n_groups: 4, modularity, natural_number: 4, by_ward: false };
        let better = refine(&parts, start.clone());
        assert!(better.modularity > modularity + 0.05, "{} after {modularity}", better.modularity);
        for part in (0..8).step_by(2) {
            assert_eq!(better.groups[part], better.groups[part + 1], "{:?}", better.groups);
        }
    }

    /// Six parts on a line, three and three, one of them very small; the grouping has one part too many on the left.
    #[test]
    fn parts_move_by_the_sum_of_squares() {
        let graph = PartGraph { n_parts: 6, edges: vec![1.0; 36] };
        let means = vec![0.0, 1.0, 2.0, 9.0, 11.0, 12.0];
        let parts = Parts { graph, sizes: vec![10.0, 10.0, 1.0, 10.0, 10.0, 10.0], means, n_latent: 1 };
        let by_ward = |groups: Vec<u32>| {
            let modularity = parts.graph.modularity(&groups);
            Grouping { groups, n_groups: 2, modularity, natural_number: 6, by_ward: true }
        };
        let better = refine(&parts, by_ward(vec![0, 0, 0, 0, 1, 1]));
        // The right group has the most rows now.
        assert_eq!(better.groups, [1, 1, 1, 0, 0, 0]);
        assert_eq!(refine(&parts, better.clone()), better);
        // A group is never emptied.
        let alone = refine(&parts, by_ward(vec![0, 0, 1, 0, 0, 0]));
        assert_eq!(alone.groups.iter().max(), Some(&1));
    }
}
