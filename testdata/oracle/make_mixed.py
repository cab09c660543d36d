"""Writes mixed.safetensors: k-prototypes of the package kmodes, Gower's distances and scipy's Ward linkage of them.

Needs numpy, scipy, kmodes, safetensors. Run it in this folder.
"""

import numpy as np
from kmodes.kprototypes import KPrototypes
from safetensors.numpy import save_file
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

rng = np.random.default_rng(8)
ROWS, GROUPS, LEVELS = 150, 4, (2, 3, 5)
MISSING = 2**32 - 1
parts = rng.integers(GROUPS, size=ROWS)
numbers = (rng.normal(size=(GROUPS, 4)) * 1.5)[parts] + rng.normal(size=(ROWS, 4))
numbers = ((numbers - numbers.mean(0)) / numbers.std(0) * [1.0, 1.0, 1.0, 0.5]).astype(np.float32)
typical = np.stack([rng.integers(n, size=GROUPS) for n in LEVELS], axis=1)[parts]
other = np.stack([rng.integers(n, size=ROWS) for n in LEVELS], axis=1)
codes = np.where(rng.random(size=typical.shape) < 0.7, typical, other)
tensors = {"numbers": numbers, "codes": codes.astype(np.uint32)}

# k-prototypes: the best of twenty starts.
x = numbers.astype(np.float64)
fitted = KPrototypes(GROUPS, n_init=20, random_state=0).fit(np.hstack([x, codes]), categorical=[4, 5, 6])
means, modes = np.split(fitted.cluster_centroids_, [4], axis=1)
tensors |= {
    "gamma": np.array([fitted.gamma]), "cost": np.array([fitted.cost_]), "means": means.astype(np.float64),
    "modes": modes.astype(float).astype(np.uint32), "prototype_clusters": fitted.labels_.astype(np.uint32),
}

# Gower's distances of the same rows with a tenth of the cells missing, by the formula.
holes = rng.random(size=(ROWS, 7)) < 0.1
x = np.where(holes[:, :4], np.nan, x)
levels = np.where(holes[:, 4:], np.nan, codes)
parts = [abs(column[:, None] - column) / (np.nanmax(column) - np.nanmin(column)) for column in x.T]
for column in levels.T:
    absent = np.isnan(column)
    parts.append(np.where(absent[:, None] | absent, np.nan, column[:, None] != column))
distances = np.nanmean(parts, axis=0)
np.fill_diagonal(distances, 0.0)
tree = linkage(squareform(distances), method="ward")
tensors |= {
    "gap_numbers": x.astype(np.float32), "gap_codes": np.where(holes[:, 4:], MISSING, codes).astype(np.uint32),
    "distances": squareform(distances), "heights": tree[:, 2],
}
for k in (2, 4, 9):
    tensors[f"tree_clusters_{k}"] = fcluster(tree, k, criterion="maxclust").astype(np.uint32)
    assert len(set(tensors[f"tree_clusters_{k}"])) == k

save_file({name: np.ascontiguousarray(value) for name, value in tensors.items()}, "mixed.safetensors")
