"""Writes rivals.safetensors: what scikit-learn, scipy and dense numpy make of the rivals' parts.

Needs numpy, scipy, scikit-learn, safetensors. Run it in this folder.
"""

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from safetensors.numpy import save_file
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import NearestNeighbors

rng = np.random.default_rng(5)
ROWS, COLUMNS, COMPONENTS = 120, 5, 3
mixing = rng.normal(size=(COMPONENTS, COLUMNS, COLUMNS))
centres = rng.normal(size=(COMPONENTS, COLUMNS)) * 3
parts = rng.integers(COMPONENTS, size=ROWS)
rows = (centres[parts] + np.einsum("nij,nj->ni", mixing[parts], rng.normal(size=(ROWS, COLUMNS)))).astype(np.float32)
x = rows.astype(np.float64)
tensors = {"rows": rows}

# Gaussian mixtures with full covariances: EM from given responsibilities.
RIDGE = 1e-3
gamma = rng.dirichlet(np.full(COMPONENTS, 0.3), size=ROWS)
mass = gamma.sum(0)
means = gamma.T @ x / mass[:, None]
covariances = np.stack([
    (gamma[:, m, None] * (x - means[m])).T @ (x - means[m]) / mass[m] + RIDGE * np.eye(COLUMNS)
    for m in range(COMPONENTS)
])
tensors |= {"gamma": gamma, "means_0": means, "covariances_0": covariances}
for iterations in (1, 15):
    fitted = GaussianMixture(
        COMPONENTS, covariance_type="full", tol=0.0, reg_covar=RIDGE, max_iter=iterations,
        weights_init=mass / ROWS, means_init=means, precisions_init=np.linalg.inv(covariances),
    ).fit(x)
    assert fitted.n_iter_ == iterations
    tensors[f"log_weights_{iterations}"] = np.log(fitted.weights_)
    tensors[f"means_{iterations}"] = fitted.means_
    tensors[f"covariances_{iterations}"] = fitted.covariances_
    tensors[f"log_joint_{iterations}"] = fitted._estimate_weighted_log_prob(x)
    tensors[f"log_likelihood_{iterations}"] = np.array([fitted.score(x)])

# The normalised Laplacian of the graph of six neighbours, and its smallest eigenvectors.
NEIGHBOURS, WANTED = 6, 4
neighbours = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(x).kneighbors(return_distance=False)
ones = np.ones(ROWS * NEIGHBOURS)
a = sp.csr_matrix((ones, (np.repeat(np.arange(ROWS), NEIGHBOURS), neighbours.ravel())), shape=(ROWS, ROWS))
laplacian = sp.csgraph.laplacian((a + a.T) / 2, normed=True)
values, vectors = spl.eigsh(laplacian + 0.1 * sp.eye(ROWS), k=WANTED, sigma=0, which="LM")
order = values.argsort()
tensors |= {
    "neighbours": neighbours.astype(np.uint32), "laplacian": laplacian.toarray(),
    "eigenvalues": values[order] - 0.1, "eigenvectors": vectors[:, order],
}

# LDMGI's Laplacian with cliques of a row and its six neighbours, dense and by the formula.
RATIO = 1e-3
cliques = np.hstack([np.arange(ROWS)[:, None], neighbours])
k = NEIGHBOURS + 1
h = np.eye(k) - 1 / k
products = [h @ x[clique] @ x[clique].T @ h for clique in cliques]
lam = RATIO * np.mean([np.trace(p) / (k - 1) for p in products])
ldmgi = np.zeros((ROWS, ROWS))
for clique, product in zip(cliques, products):
    ldmgi[np.ix_(clique, clique)] += h @ np.linalg.inv(product + lam * np.eye(k)) @ h
values, vectors = np.linalg.eigh(ldmgi)
tensors |= {"ldmgi": ldmgi, "ldmgi_eigenvalues": values[: WANTED + 1]}

# Spectral rotation (Yu and Shi) of noisy indicators that were turned by a random rotation.
K = 4
truth = rng.integers(K, size=ROWS)
turn, _ = np.linalg.qr(rng.normal(size=(K, K)))
lines = (np.eye(K)[truth] + 0.25 * rng.normal(size=(ROWS, K))) @ turn
lines = (lines / np.linalg.norm(lines, axis=1, keepdims=True)).astype(np.float32)
y = lines.astype(np.float64)
rotation = np.zeros((K, K))
rotation[:, 0] = y[7]
shared = np.zeros(ROWS)
for column in range(1, K):
    shared += abs(y @ rotation[:, column - 1])
    rotation[:, column] = y[shared.argmin()]
last = 0.0
while True:
    clusters = (y @ rotation).argmax(1)
    u, s, v = np.linalg.svd(np.eye(K)[clusters].T @ y)
    if s.sum() - last < 1e-12:
        break
    last, rotation = s.sum(), v.T @ u.T
tensors |= {"lines": lines, "clusters": clusters.astype(np.uint32), "objective": np.array([s.sum()])}

save_file({name: np.ascontiguousarray(value) for name, value in tensors.items()}, "rivals.safetensors")
