"""Names of columns: scikit-learn's rules for the estimator, matching for AnnData objects."""

import warnings

import anndata
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from common import SMALL
from scipy import sparse

import pervade.anndata
from pervade import VaDE

NAMES = list("abcde")
ORDER = [3, 0, 4, 1, 2]
FRAMES = {
    "pandas": lambda x, names: pd.DataFrame(x, columns=names),
    "polars": lambda x, names: pl.DataFrame(np.ascontiguousarray(x), schema=names),
    "pyarrow": lambda x, names: pa.table({name: x[:, i] for i, name in enumerate(names)}),
}
METHODS = ["predict", "predict_proba", "transform", "score_samples"]


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("kind", FRAMES)
def test_the_estimator_follows_scikit_learn(small, rows, tmp_path, kind, loaded):
    frame = FRAMES[kind]
    vade = small().fit(frame(rows, NAMES))
    if loaded:
        vade.save(tmp_path / "v.pervade")
        vade = VaDE.load(tmp_path / "v.pervade", device="cpu")
    turned = frame(rows[:, ORDER], [NAMES[i] for i in ORDER])
    renamed = frame(rows, ["a", "b", "c", "d", "z"])
    fewer = frame(rows[:, :4], NAMES[:4])
    for method in METHODS:
        use = getattr(vade, method)
        use(frame(rows, NAMES))
        with pytest.raises(ValueError, match="Feature names must be in the same order"):
            use(turned)
        with pytest.raises(ValueError, match="The feature names should match"):
            use(renamed)
        with pytest.raises(ValueError, match="feature"):
            use(fewer)
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            use(rows)


@pytest.fixture(params=["dense", "sparse"])
def adata(request, rows):
    X = np.abs(rows) * np.array([1, 10, 0.1, 3, 5], np.float32)
    made = anndata.AnnData(X if request.param == "dense" else sparse.csr_matrix(X))
    made.var_names = [f"gene{i}" for i in range(5)]
    made.layers["twice"] = 2 * made.X
    made.obsm["X_pca"] = rows[:, :3]
    return made


@pytest.mark.parametrize("layer", [None, "twice"])
def test_genes_are_matched_by_name(adata, layer):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", pervade.FitWarning)
        vade = pervade.anndata.fit(adata, 3, layer=layer, **SMALL)
        assert list(vade.feature_names_in_) == list(adata.var_names)
        turned = adata[:, [f"gene{i}" for i in ORDER]].copy()
        pervade.anndata.annotate(turned, vade, layer=layer)
    np.testing.assert_array_equal(turned.obs["vade"], adata.obs["vade"])
    np.testing.assert_array_equal(turned.obsm["X_vade"], adata.obsm["X_vade"])


def test_other_genes_are_refused(adata):
    vade = pervade.anndata.fit(adata, 3, **SMALL)
    other = adata.copy()
    other.var_names = ["gene0", "gene1", "gene2", "gene3", "gene9"]
    with pytest.raises(ValueError, match="missing: `gene4`; unexpected: `gene9`"):
        pervade.anndata.annotate(other, vade)
    with pytest.raises(ValueError, match="missing: `gene4`"):
        pervade.anndata.annotate(adata[:, :4].copy(), vade)
    assert "unchanged" not in other.obs


def test_names_survive_a_file(adata, tmp_path):
    vade = pervade.anndata.fit(adata, 3, **SMALL)
    vade.save(tmp_path / "v.pervade")
    loaded = VaDE.load(tmp_path / "v.pervade", device="cpu")
    turned = adata[:, [f"gene{i}" for i in ORDER]].copy()
    pervade.anndata.annotate(turned, loaded)
    np.testing.assert_array_equal(turned.obs["vade"], adata.obs["vade"])
    assert "elbo" not in turned.uns["vade"] and "elbo" in adata.uns["vade"]


def test_entries_of_obsm_are_matched_by_position(adata, rows):
    vade = pervade.anndata.fit(adata, 3, obsm="X_pca", **SMALL)
    assert not hasattr(vade, "feature_names_in_")
    pervade.anndata.annotate(adata[:, ::-1].copy(), vade, obsm="X_pca")
    adata.obsm["frame"] = pd.DataFrame(rows, columns=NAMES, index=adata.obs_names)
    vade = pervade.anndata.fit(adata, 3, obsm="frame", **SMALL)
    assert list(vade.feature_names_in_) == NAMES
    adata.obsm["frame"] = adata.obsm["frame"][[NAMES[i] for i in ORDER]]
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        pervade.anndata.annotate(adata, vade, obsm="frame")


def test_a_model_without_names_matches_by_position(adata):
    vade = VaDE(3, **SMALL).fit(adata.X)
    pervade.anndata.annotate(adata, vade)
    np.testing.assert_array_equal(adata.obs["vade"].astype(int), vade.labels_)
