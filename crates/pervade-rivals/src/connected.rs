//! Connected components of a graph: its Laplacian has an eigenvalue of zero for each, and if K of them are tiny, these
//! would be the clusters.

use pervade::graph::Graph;

/// Components below this fraction of the mean cluster size are dropped.
const MIN_SIZE_RATIO: f64 = 0.1;

/// The graph without its small connected components, for `n_clusters` clusters. Edges count in both directions. If
/// nearly all components are small, the whole graph.
pub(crate) fn without_small_components(graph: Graph, n_clusters: usize) -> Graph {
    let (n, k) = (graph.rows.len(), graph.n_neighbours);
    let mut parents: Vec<u32> = (0..n as u32).collect();
    for (node, neighbours) in graph.neighbours.chunks_exact(k).enumerate() {
        for &other in neighbours {
            let [a, b] = [node as u32, other].map(|node| root(&mut parents, node));
            // The earlier node is the root: the root of a component is its first node.
            parents[a.max(b) as usize] = a.min(b);
        }
    }
    let roots: Vec<u32> = (0..n as u32).map(|node| root(&mut parents, node)).collect();
    let mut sizes = vec![0; n];
    roots.iter().for_each(|&root| sizes[root as usize] += 1);
    let min_size = (MIN_SIZE_RATIO * n as f64 / n_clusters as f64).ceil() as usize;
    let nodes: Vec<usize> = (0..n).filter(|&node| sizes[roots[node] as usize] >= min_size).collect();
    if nodes.len() == n || nodes.len() <= n_clusters {
        return graph;
    }
    let mut new_indices = vec![0; n];
    nodes.iter().enumerate().for_each(|(index, &node)| new_indices[node] = index as u32);
    let neighbours = nodes.iter().flat_map(|&node| &graph.neighbours[node * k..(node + 1) * k]);
    Graph {
        rows: nodes.iter().map(|&node| graph.rows[node]).collect(),
        n_neighbours: k,
        neighbours: neighbours.map(|&node| new_indices[node as usize]).collect(),
        others: Vec::new(),
    }
}

/// The root of a node's component, with path compression (union-find).
fn root(parents: &mut [u32], mut node: u32) -> u32 {
    while parents[node as usize] != node {
        let above = parents[parents[node as usize] as usize];
        parents[node as usize] = above;
        node = above;
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_components_are_dropped_and_edges_kept() {
        // Forty nodes in a ring, but 7 and 9 have only each other, and 20 has an edge into the ring but none from it.
        let next = |node: u32| match node {
            7 => 9,
            9 => 7,
            6 | 8 => node + 2,
            19 => 21,
            _ => (node + 1) % 40,
        };
        let graph = Graph {
            rows: (100..140).collect(),
            n_neighbours: 1,
            neighbours: (0..40).map(next).collect(),
            others: Vec::new(),
        };
        let kept = without_small_components(graph.clone(), 1);
        assert_eq!(kept.rows, (100..140).filter(|row| ![107, 109].contains(row)).collect::<Vec<u32>>());
        for (node, &other) in kept.neighbours.iter().enumerate() {
            assert_eq!(kept.rows[other as usize] - 100, next(kept.rows[node] - 100));
        }
        // Two of forty nodes are a tenth of a cluster of twenty.
        assert_eq!(without_small_components(graph.clone(), 2).rows, graph.rows);
    }
}
