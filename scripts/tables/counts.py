"""A sparse table of overdispersed counts with known groups, such as single cells."""

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD

from tables.work import Pervade, Record, agreement, timed

ROWS, COLUMNS, GROUPS = 50_000, 5_000, 8
# Each group raises or lowers this share of the columns by a factor of about two.
MARKERS, LOG_FACTOR = 0.05, 0.7
# The variance of a count is mean + mean² / this.
INVERSE_DISPERSION = 2.0
# Sums of rows, spread tenfold.
LEAST_SUM, LARGEST_SUM = 500, 5_000


def simulated(rows, columns, rng):
    log_means = np.tile(rng.normal(0, 1.5, size=columns), (GROUPS, 1))
    log_means += LOG_FACTOR * rng.normal(size=log_means.shape) * (rng.random(log_means.shape) < MARKERS)
    means = np.exp(log_means)
    means /= means.sum(1, keepdims=True)
    labels = rng.integers(GROUPS, size=rows)
    sums = LEAST_SUM * (LARGEST_SUM / LEAST_SUM) ** rng.random(rows)
    parts = []
    for block in np.array_split(np.arange(rows), max(1, rows // 1000)):
        mean = means[labels[block]] * sums[block, None]
        rate = rng.gamma(INVERSE_DISPERSION, mean / INVERSE_DISPERSION)
        parts.append(sp.csr_matrix(rng.poisson(rate).astype(np.float32)))
    return sp.vstack(parts, format="csr"), labels


def usual_pipeline(x, seed):
    """Counts per row's sum, logarithms, fifty singular vectors, k-means."""
    sums = np.maximum(np.asarray(x.sum(1)).ravel(), 1)
    scaled = sp.csr_matrix(sp.diags(np.median(sums) / sums) @ x)
    scaled.data = np.log1p(scaled.data)
    return KMeans(GROUPS, n_init=10, random_state=seed).fit_predict(TruncatedSVD(50, random_state=seed).fit_transform(scaled))


def run(options):
    pervade = Pervade(options)
    rows, columns = (1000, 300) if options.quick else (ROWS, COLUMNS)
    x, labels = simulated(rows, columns, np.random.default_rng(6))
    about = {"rows": rows, "columns": columns, "groups": GROUPS, "entries": x.nnz}
    record = Record(options, f"counts-{rows}", about, pervade)
    sp.save_npz(pervade.folder / "counts.npz", x)
    np.save(pervade.folder / "labels.npy", labels)
    for seed in range(options.seeds or 1):
        if record.wants("SVD and k-means"):
            clusters, seconds = timed(lambda: usual_pipeline(x, seed))
            record.add("SVD and k-means", seed=seed, seconds=seconds, **agreement(labels, clusters))
        flags = ["--labels", "labels.npy", "--clusters", GROUPS, "--seed", seed]
        record.try_pervade("pervade", lambda: pervade.fit("counts.npz", *flags), seed=seed)
        counts = [*flags, "--likelihood", "counts"]
        record.try_pervade("pervade, counts", lambda: pervade.fit("counts.npz", *counts), seed=seed)
