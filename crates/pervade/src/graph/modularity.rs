//! Newman modularity of a partition on the neighbour graph (Newman, 2004).

use super::Graph;
use crate::{Error, Result};

/// The neighbour graph condensed to its parts: the number of edges between each two.
#[derive(Clone, Debug, PartialEq)]
pub struct PartGraph {
    /// C
    pub n_parts: usize,
    /// Edges from part to part, each edge counted in both directions, so that the matrix is symmetric and an edge
    /// inside a part counts twice on the diagonal. `[C, C]`
    pub edges: Vec<f64>,
}

impl PartGraph {
    /// Counts the edges of `graph` between the parts that the rows belong to.
    ///
    /// # Shapes
    /// - assignment: `[N]`, the part of every row (not only of the graph's nodes)
    pub fn count(graph: &Graph, assignment: &[u32], n_parts: usize) -> Result<Self> {
        if let Some(part) = assignment.iter().find(|&&part| part as usize >= n_parts) {
            return Err(Error::setting("assignment", part, format!("must be below {n_parts}")));
        }
        if graph.rows.last().is_some_and(|&last| last as usize >= assignment.len()) {
            let must = "must have an entry for every row of the graph";
            return Err(Error::setting("assignment", format!("{} entries", assignment.len()), must));
        }
        let part_of = |node: u32| assignment[graph.rows[node as usize] as usize] as usize;
        let mut edges = vec![0.0; n_parts * n_parts];
        for (node, neighbours) in graph.neighbours.chunks_exact(graph.n_neighbours).enumerate() {
            let from = part_of(node as u32);
            for &neighbour in neighbours {
                let to = part_of(neighbour);
                edges[from * n_parts + to] += 1.0;
                edges[to * n_parts + from] += 1.0;
            }
        }
        Ok(Self { n_parts, edges })
    }

    /// Ends of edges in each part: the row sums of the matrix. `[C]`
    pub fn volumes(&self) -> Vec<f64> {
        self.edges.chunks_exact(self.n_parts).map(|row| row.iter().sum()).collect()
    }

    /// Q = sum_g [ e_gg / t - (a_g / t)^2 ] of a grouping of the parts, with a_g the volume of g and t the sum of all
    /// volumes. Between -1/2 and 1.
    ///
    /// # Shapes
    /// - groups: `[C]`, the group of each part
    pub fn modularity(&self, groups: &[u32]) -> f64 {
        let n_groups = groups.iter().max().map_or(0, |&last| last as usize + 1);
        let mut inside = 0.0;
        let mut group_volumes = vec![0.0; n_groups];
        for (part, row) in self.edges.chunks_exact(self.n_parts).enumerate() {
            for (other, &edges) in row.iter().enumerate() {
                group_volumes[groups[part] as usize] += edges;
                if groups[part] == groups[other] {
                    inside += edges;
                }
            }
        }
        let total: f64 = group_volumes.iter().sum();
        inside / total - group_volumes.iter().map(|volume| (volume / total).powi(2)).sum::<f64>()
    }
}

/// Modularity of a clustering of all rows on `graph`; higher is better.
///
/// # Shapes
/// - assignment: `[N]`
pub fn modularity(graph: &Graph, assignment: &[u32]) -> Result<f64> {
    let n_parts = assignment.iter().max().map_or(0, |&last| last as usize + 1);
    let parts = PartGraph::count(graph, assignment, n_parts)?;
    Ok(parts.modularity(&(0..n_parts as u32).collect::<Vec<u32>>()))
}
