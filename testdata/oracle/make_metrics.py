"""Writes metrics.safetensors: scores by scipy and scikit-learn, graphs by scikit-learn and networkx.

Needs numpy, scipy, scikit-learn, networkx, safetensors. Run it in this folder.
"""

import networkx as nx
import numpy as np
from safetensors.numpy import save_file
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score, silhouette_score
from sklearn.metrics.cluster import contingency_matrix
from sklearn.neighbors import NearestNeighbors

rng = np.random.default_rng(21)
tensors = {}


def u32(values):
    return np.ascontiguousarray(values, dtype=np.uint32)


# Agreement of two partitions: [accuracy, nmi, ari] a case.
def noisy(labels, share, values):
    return np.where(rng.random(labels.size) < share, rng.integers(values, size=labels.size), labels)


labels = rng.integers(10, size=400)
cases = {
    "permuted": ((labels * 7 + 3) % 10, labels),
    "noisy": (noisy((labels + 4) % 10, 0.3, 10), labels),
    "more_clusters": (noisy(labels, 0.5, 17), labels),
    "fewer_clusters": (noisy(labels // 3, 0.2, 4), labels),
    "independent": (rng.integers(10, size=400), labels),
    "one_cluster": (np.zeros(400, int), labels),
    "one_label": (labels, np.full(400, 3)),
    "one_and_one": (np.full(400, 5), np.zeros(400, int)),
    "all_alone": (np.arange(400), labels),
    "sparse_values": (labels * 400_000_000, labels),
}
for name, (clusters, truth) in cases.items():
    table = contingency_matrix(clusters, truth)
    matched = table[linear_sum_assignment(table, maximize=True)].sum() / table.sum()
    tensors[f"case_{name}_clusters"], tensors[f"case_{name}_labels"] = u32(clusters), u32(truth)
    tensors[f"case_{name}_scores"] = np.array([
        matched, normalized_mutual_info_score(truth, clusters), adjusted_rand_score(truth, clusters)])

# The neighbour graph of overlapping clusters, and two partitions of it.
ROWS, LATENT, PARTS, GROUPS, NEIGHBOURS = 250, 5, 20, 4, 10
centres = rng.normal(size=(5, LATENT)) * 1.7 + 50
latents = (centres[rng.integers(5, size=ROWS)] + rng.normal(size=(ROWS, LATENT))).astype(np.float32)
z = latents.astype(np.float64)
seeds = z[rng.choice(ROWS, PARTS, replace=False)]
parts = ((z[:, None] - seeds) ** 2).sum(-1).argmin(1)
neighbours = NearestNeighbors(n_neighbors=NEIGHBOURS + 1, algorithm="brute").fit(z).kneighbors(z)[1]
assert (neighbours[:, 0] == np.arange(ROWS)).all()
neighbours = neighbours[:, 1:]
graph = nx.Graph()
graph.add_nodes_from(range(ROWS))
for node, row in enumerate(neighbours):
    for other in row:
        weight = graph.get_edge_data(node, int(other), {"weight": 0})["weight"]
        graph.add_edge(node, int(other), weight=weight + 1)


def modularity(assignment):
    return nx.community.modularity(graph, [set(np.flatnonzero(assignment == c)) for c in np.unique(assignment)])


def merged(n_groups):
    """Greedy merging by the definition: try every pair, compute the modularity of the whole graph."""
    assignment, trace = parts.copy(), [modularity(parts)]
    while len(np.unique(assignment)) > n_groups:
        alive = np.unique(assignment)
        trials = [(np.where(assignment == j, i, assignment)) for i in alive for j in alive if i < j]
        scores = [modularity(trial) for trial in trials]
        trace.append(max(scores))
        assignment = trials[int(np.argmax(scores))]
    return assignment, np.array(trace)


shuffled = rng.permutation(parts)
grouped, _ = merged(GROUPS)
_, trace = merged(1)
tensors |= {
    "latents": latents, "neighbours": u32(neighbours), "parts": u32(parts),
    "shuffled": u32(shuffled),
    "modularity_parts": np.array([modularity(parts)]), "modularity_shuffled": np.array([modularity(shuffled)]),
    "grouped": u32(grouped), "modularity_grouped": np.array([modularity(grouped)]),
    "natural_number": u32([len(np.unique(parts)) - int(trace.argmax())]),
    "silhouette": np.array([silhouette_score(z, parts)]),
}
save_file(tensors, "metrics.safetensors")
