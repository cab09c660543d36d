"""Writes mixture.safetensors: what scikit-learn makes of a diagonal Gaussian mixture.

Needs numpy, scikit-learn, safetensors. Run it in this folder.
"""

import numpy as np
from safetensors.numpy import save_file
from sklearn.mixture import GaussianMixture

ROWS, LATENT, COMPONENTS = 300, 4, 11
rng = np.random.default_rng(20)
centres = rng.normal(size=(5, LATENT)) * 2 + 7  # away from the origin, so that cancellation would show
latents = (centres[rng.integers(5, size=ROWS)] + rng.normal(size=(ROWS, LATENT))).astype(np.float32)
z = latents.astype(np.float64)

weights = rng.dirichlet(np.full(COMPONENTS, 3.0))
means = z[rng.choice(ROWS, COMPONENTS, replace=False)]
variances = rng.uniform(0.3, 2.0, size=(COMPONENTS, LATENT))


def mixture(iterations):
    # No regularisation: our floor is a bound, theirs an addition, and here neither should matter.
    return GaussianMixture(
        COMPONENTS, covariance_type="diag", tol=0.0, reg_covar=0.0, max_iter=iterations,
        weights_init=weights, means_init=means, precisions_init=1 / variances,
    )


given = mixture(1)
given.weights_, given.means_, given.covariances_ = weights, means, variances
given.precisions_cholesky_ = 1 / np.sqrt(variances)
tensors = {
    "latents": latents, "log_weights": np.log(weights), "means": means, "variances": variances,
    "log_joint": given._estimate_weighted_log_prob(z),
    "log_density": given.score_samples(z),
    "responsibilities": given.predict_proba(z),
    "assignment": given.predict(z).astype(np.uint32),
}
for iterations in (1, 20):
    fitted = mixture(iterations).fit(z)
    assert fitted.n_iter_ == iterations
    tensors[f"log_weights_{iterations}"] = np.log(fitted.weights_)
    tensors[f"means_{iterations}"] = fitted.means_
    tensors[f"variances_{iterations}"] = fitted.covariances_
    tensors[f"log_likelihood_{iterations}"] = np.array([fitted.score(z)])
save_file({name: np.ascontiguousarray(value) for name, value in tensors.items()}, "mixture.safetensors")
