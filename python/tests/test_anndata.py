"""A small synthetic object is annotated, written to a file and read back."""

import anndata
import numpy as np
import pytest
from common import SMALL
from scipy import sparse

import pervade.anndata
from pervade import VaDE


@pytest.fixture
def adata(rows):
    counts = sparse.csr_matrix(np.random.default_rng(0).poisson(0.7, (200, 12)).astype(np.float32))
    made = anndata.AnnData(counts)
    made.layers["shifted"] = rows[:, :1] + np.zeros((200, 12), np.float32) + np.arange(12)
    made.obsm["X_pca"] = rows
    made.obs_names = [f"cell{i}" for i in range(200)]
    return made


def test_round_trip(adata, rows, tmp_path):
    vade = pervade.anndata.fit(adata, 3, obsm="X_pca", **SMALL)
    expected = VaDE(3, **SMALL).fit(rows)
    adata.write_h5ad(tmp_path / "a.h5ad")
    back = anndata.read_h5ad(tmp_path / "a.h5ad")
    np.testing.assert_array_equal(back.obsm["X_vade"], expected.transform(rows))
    np.testing.assert_array_equal(back.obs["vade"].astype(int), expected.labels_)
    assert list(back.obs["vade"].cat.categories) == ["0", "1", "2"]
    np.testing.assert_array_equal(back.obs["vade_probability"], expected.predict_proba(rows).max(axis=1))
    about = back.uns["vade"]
    assert about["rows"] == "obsm['X_pca']" and about["n_clusters"] == 3
    assert about["elbo"] == vade.lower_bound_ and len(about["history"]["elbo"]) == 2
    assert list(about["params"]["hidden"]) == [16] and about["params"]["random_state"] == 0


def test_where_rows_come_from(adata):
    assert pervade.anndata.fit(adata, 2, **SMALL).n_features_in_ == 12
    assert sparse.issparse(pervade.anndata.rows(adata))
    pervade.anndata.fit(adata, 2, layer="shifted", key_added="second", **SMALL)
    assert {"vade", "second"} <= set(adata.obs) and "X_second" in adata.obsm
    with pytest.raises(ValueError, match="there is no layer `counts`; there are"):
        pervade.anndata.rows(adata, layer="counts")
    with pytest.raises(ValueError, match="not from both"):
        pervade.anndata.rows(adata, layer="shifted", obsm="X_pca")
    with pytest.raises(ValueError, match="no `X`"):
        pervade.anndata.rows(anndata.AnnData(obs=adata.obs))


def test_another_object(adata, rows):
    vade = VaDE(3, **SMALL).fit(rows)
    pervade.anndata.annotate(adata, vade, obsm="X_pca")
    np.testing.assert_array_equal(adata.obs["vade"].astype(int), vade.labels_)


def test_raw_counts_of_a_layer(adata):
    adata.layers["counts"] = adata.X.copy()
    adata.X = np.log1p(adata.X)
    vade = pervade.anndata.fit(adata, 2, layer="counts", likelihood="counts", **SMALL)
    assert vade.preparation_ == vade.likelihood_ == "counts" and vade.column_types_ == {}
    made, _ = vade.sample(20)
    assert (made >= 0).all() and (made == np.round(made)).all() and vade.sample(20, mean=True)[0].shape == (20, 12)
    turned = adata[:, ::-1].copy()
    pervade.anndata.annotate(turned, vade, layer="counts")
    np.testing.assert_array_equal(turned.obs["vade"], adata.obs["vade"])
    with pytest.raises(ValueError, match="counts are whole numbers of at least zero"):
        pervade.anndata.fit(adata, 2, likelihood="counts", **SMALL)


def test_gaps_and_types(adata):
    adata.obsm["clinic"] = adata.obs.assign(age=np.arange(200) % 70, sex=["f", "m"] * 100)[["age", "sex"]]
    adata.obsm["clinic"].loc["cell3", "age"] = np.nan
    vade = pervade.anndata.fit(adata, 2, obsm="clinic", **SMALL)
    assert vade.column_types_["sex"] == "yes/no" and not vade.impute(adata.obsm["clinic"]).isna().any().any()


def test_map_and_markers(adata, tmp_path):
    vade = pervade.anndata.fit(adata, 3, layer="shifted", **SMALL)
    pervade.anndata.add_map(adata, vade, layer="shifted")
    pervade.anndata.add_markers(adata, vade, layer="shifted", n_genes=4)
    pervade.anndata.add_map(adata, VaDE(3, **SMALL).fit(adata.obsm["X_pca"]), obsm="X_pca", key_added="pca")
    adata.write_h5ad(tmp_path / "a.h5ad")
    back = anndata.read_h5ad(tmp_path / "a.h5ad")
    np.testing.assert_array_equal(back.obsm["X_vade_map"], vade.map(adata.layers["shifted"]))
    assert back.obsm["X_pca_map"].shape == (200, 2) and back.obsm["X_pca_map"].dtype == np.float32
    markers = back.uns["vade_markers"]
    assert markers["params"]["groupby"] == "vade" and markers["params"]["layer"] == "shifted"
    assert markers["names"].dtype.names == ("0", "1", "2") and markers["names"].shape == (4,)
    assert set(markers["names"]["0"]) <= set(adata.var_names) and np.isnan(markers["pvals"]["0"]).all()
    described = vade.describe(adata.layers["shifted"], limit=12).query("cluster == 1").set_index("column")["difference"]
    np.testing.assert_allclose(markers["scores"]["1"], described[markers["names"]["1"].astype(str)], rtol=1e-6)
    assert (np.diff(markers["scores"]["1"]) <= 0).all()
    turned = adata[:, ::-1].copy()
    pervade.anndata.add_markers(turned, vade, layer="shifted", n_genes=4)
    np.testing.assert_array_equal(turned.uns["vade_markers"]["scores"]["2"], markers["scores"]["2"])
    with pytest.raises(ValueError, match="`n_genes` is 0"):
        pervade.anndata.add_markers(adata, vade, layer="shifted", n_genes=0)


def test_markers_are_planted(adata):
    groups = np.arange(200) % 2
    adata.layers["planted"] = np.random.default_rng(1).normal(size=(200, 12)).astype(np.float32)
    adata.layers["planted"][:, 3:8] += 8 * groups[:, None]
    vade = pervade.anndata.fit(adata, 2, layer="planted", **SMALL)
    pervade.anndata.add_markers(adata, vade, layer="planted")
    high = str(int(vade.labels_[groups == 1].mean() > 0.5))
    assert adata.uns["vade_markers"]["names"][high][0] in adata.var_names[3:8]
    assert adata.uns["vade_markers"]["auc"][high][0] > 0.9
