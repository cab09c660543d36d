//! Clusters merged by hand.

use super::Vade;
use crate::{Error, Result};

impl Vade {
    /// The same model with clusters merged: `into[k]` is the cluster that the components of cluster k then belong to, k itself
    /// for most. The number of clusters and their indices stay; a cluster that was merged into another has probability zero,
    /// no rows, and cannot be generated.
    pub fn merged(&self, into: &[u32]) -> Result<Self> {
        let k = self.n_clusters();
        if into.len() != k || into.iter().any(|&cluster| cluster as usize >= k) {
            let must = format!("must have one cluster below {k} for each of the {k} clusters");
            return Err(Error::setting("merged clusters", format!("{into:?}"), must));
        }
        let mut model = self.clone();
        model.groups.iter_mut().for_each(|group| *group = into[*group as usize]);
        Ok(model)
    }

    /// Whether some component belongs to the cluster: false only if it was merged into another.
    pub fn has_components(&self, cluster: usize) -> bool {
        self.groups.iter().any(|&group| group as usize == cluster)
    }
}
