//! The vote of several clusterings of the same rows.

use super::{Contingency, ari};
use crate::Result;

/// The majority of several clusterings, with the clusters of one of them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Vote {
    /// The clustering that agrees most with the others (mean ARI); the clusters of the vote are its clusters.
    pub reference: usize,
    /// The cluster with the most votes for each row; ties go to the reference's, then to the first. `[N]`
    pub clusters: Vec<u32>,
    /// The share of clusterings that voted for it. `[N]`
    pub agreement: Vec<f32>,
    /// Mean ARI of each clustering with the others. `[R]`
    pub agreement_with_others: Vec<f64>,
    /// ARI of each pair of clusterings. `[R][R]`
    pub pairs: Vec<Vec<f64>>,
    /// Mean of the above: one if all clusterings are equal.
    pub stability: f64,
}

impl Vote {
    /// A single clustering as a vote without dissent, for a model that is trained towards it; `reference` is the restart that
    /// is trained further.
    pub(crate) fn for_clusters(clusters: Vec<u32>, reference: usize) -> Self {
        let agreement = vec![1.0; clusters.len()];
        let (agreement_with_others, pairs) = (Vec::new(), Vec::new());
        Self { reference, clusters, agreement, agreement_with_others, pairs, stability: 1.0 }
    }

    /// Whether it is the vote of several restarts, not a clustering of another method.
    pub(crate) fn is_of_restarts(&self) -> bool {
        !self.agreement_with_others.is_empty()
    }
}

/// Lets two or more clusterings vote: each of their clusters stands for the cluster of the reference that it is matched
/// to, or that it shares most rows with if the reference has fewer.
///
/// # Shapes
/// - each of clusterings: `[N]`
pub fn vote<P: AsRef<[u32]>>(clusterings: &[P]) -> Result<Vote> {
    let pairs = agreement_of_pairs(clusterings)?;
    let (agreement_with_others, stability) = mean_agreement(&pairs);
    let n = clusterings.len();
    let highest = |best: usize, i: usize| {
        if agreement_with_others[i] > agreement_with_others[best] { i } else { best }
    };
    let reference = (0..n).fold(0, highest);
    let own = clusterings[reference].as_ref();
    let n_clusters = own.iter().max().map_or(0, |&last| last as usize + 1);
    let mut votes = vec![0u32; own.len() * n_clusters];
    for clustering in clusterings {
        let stands_for = translation(clustering.as_ref(), own)?;
        for (counts, &cluster) in votes.chunks_exact_mut(n_clusters).zip(clustering.as_ref()) {
            counts[stands_for[cluster as usize] as usize] += 1;
        }
    }
    let majority = |(counts, &own): (&[u32], &u32)| {
        // Doubled, so that the reference decides a tie.
        let weight = |cluster: usize| 2 * counts[cluster] + u32::from(cluster == own as usize);
        let best = (1..n_clusters).fold(0, |best, k| if weight(k) > weight(best) { k } else { best });
        (best as u32, counts[best] as f32 / n as f32)
    };
    let (clusters, agreement) = votes.chunks_exact(n_clusters).zip(own).map(majority).unzip();
    Ok(Vote { reference, clusters, agreement, agreement_with_others, pairs, stability })
}

/// ARI of each pair of clusterings. `[R][R]`
fn agreement_of_pairs<P: AsRef<[u32]>>(clusterings: &[P]) -> Result<Vec<Vec<f64>>> {
    let n = clusterings.len();
    let mut pairs = vec![vec![1.0; n]; n];
    for (i, first) in clusterings.iter().enumerate() {
        for (j, second) in clusterings.iter().enumerate().skip(i + 1) {
            pairs[i][j] = ari(first.as_ref(), second.as_ref())?;
            pairs[j][i] = pairs[i][j];
        }
    }
    Ok(pairs)
}

/// The share of clusterings that agree on the cluster of each row: each of their clusters stands for one of `clusters`, as in a
/// [`vote`].
///
/// # Shapes
/// - each of clusterings: `[N]`
/// - clusters: `[N]`
pub fn agreement<P: AsRef<[u32]>>(clusterings: &[P], clusters: &[u32]) -> Result<Vec<f32>> {
    let mut votes = vec![0u32; clusters.len()];
    for clustering in clusterings {
        let clustering = clustering.as_ref();
        let stands_for = translation(clustering, clusters)?;
        for ((votes, &own), &cluster) in votes.iter_mut().zip(clustering).zip(clusters) {
            *votes += u32::from(stands_for[own as usize] == cluster);
        }
    }
    let n = clusterings.len().max(1) as f32;
    Ok(votes.into_iter().map(|votes| votes as f32 / n).collect())
}

/// Mean ARI of each clustering with the others, and of all pairs.
fn mean_agreement(pairs: &[Vec<f64>]) -> (Vec<f64>, f64) {
    let n = pairs.len();
    let (mut sums, mut total) = (vec![0.0; n], 0.0);
    for i in 0..n {
        for j in i + 1..n {
            sums[i] += pairs[i][j];
            sums[j] += pairs[i][j];
            total += pairs[i][j];
        }
    }
    let n_pairs = n * (n - 1) / 2;
    (sums.into_iter().map(|sum| sum / (n - 1) as f64).collect(), total / n_pairs as f64)
}

/// The cluster of `reference` that each cluster of `clustering` stands for.
fn translation(clustering: &[u32], reference: &[u32]) -> Result<Vec<u32>> {
    let table = Contingency::new(clustering, reference)?;
    let n_second = table.second_values.len();
    let most_shared = |a: usize| {
        let counts = &table.counts[a * n_second..(a + 1) * n_second];
        (1..n_second).fold(0, |best, b| if counts[b] > counts[best] { b } else { best })
    };
    let last = table.first_values.last().map_or(0, |&last| last as usize);
    let mut stands_for = vec![0; last + 1];
    for (a, (&cluster, matched)) in table.first_values.iter().zip(table.matching()).enumerate() {
        stands_for[cluster as usize] = table.second_values[matched.unwrap_or_else(|| most_shared(a))];
    }
    Ok(stands_for)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of clusters differ between the clusterings; the majority does not depend on them.
    #[test]
    fn the_majority_wins_whatever_the_clusters_are_called() {
        let truth = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2];
        // Each is wrong about one row, and two of them have other names.
        let first = [0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2];
        let second = [2, 2, 2, 2, 0, 0, 0, 1, 1, 1, 1, 1];
        let third = [1, 2, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0];
        let vote = vote(&[first, second, third]).unwrap();
        assert_eq!(super::ari(&vote.clusters, &truth).unwrap(), 1.0);
        let unsure: Vec<usize> = (0..12).filter(|&row| vote.agreement[row] < 1.0).collect();
        assert_eq!(unsure, [1, 3, 7]);
        assert!(unsure.iter().all(|&row| (vote.agreement[row] - 2.0 / 3.0).abs() < 1e-6));
    }

    /// One clustering is unlike the others: it is not the reference, and it is outvoted.
    #[test]
    fn an_odd_one_out_is_outvoted() {
        let odd = [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1];
        let (even, close) = ([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
        let vote = vote(&[odd, even, close]).unwrap();
        assert_ne!(vote.reference, 0);
        assert!(vote.agreement_with_others[0] < vote.agreement_with_others[1]);
        let close_or_even =
            [even, close].iter().map(|c| super::ari(&vote.clusters, c).unwrap()).fold(0.0, f64::max);
        assert_eq!(close_or_even, 1.0);
        let pairs = [ari(&odd, &even), ari(&odd, &close), ari(&even, &close)].map(Result::unwrap);
        assert!((vote.stability - pairs.iter().sum::<f64>() / 3.0).abs() < 1e-12);
        assert_eq!(
            vote.pairs,
            [[1.0, pairs[0], pairs[1]], [pairs[0], 1.0, pairs[2]], [pairs[1], pairs[2], 1.0]]
        );
    }

    /// Two of three agree with the clusters on each row but the last, on which one does.
    #[test]
    fn agreement_is_with_given_clusters() {
        let clusters = [0, 0, 0, 1, 1, 1];
        let clusterings = [[1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 0], [5, 5, 5, 5, 5, 5]];
        let found = agreement(&clusterings, &clusters).unwrap();
        let thirds: Vec<u32> = found.iter().map(|share| (3.0 * share).round() as u32).collect();
        assert_eq!(thirds, [3, 3, 2, 2, 2, 1]);
        assert!(agreement(&clusterings, &clusters[..5]).is_err());
    }

    /// A clustering with more clusters than the reference: the two halves of a cluster both stand for it.
    #[test]
    fn a_split_cluster_still_votes() {
        let whole = [0, 0, 0, 0, 1, 1, 1, 1];
        let split = [0, 0, 2, 2, 1, 1, 1, 1];
        let vote = vote(&[whole, whole, split]).unwrap();
        assert_eq!(vote.clusters, whole);
        assert_eq!(vote.agreement, [1.0; 8]);
    }
}
