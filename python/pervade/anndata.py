"""VaDE on AnnData objects: reads rows from `X`, a layer or `obsm`, and writes clusters, latents, map and markers back.

AnnData itself is an optional dependency: `pip install pervade[anndata]`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pervade._input import named_apart, table
from pervade._progress import followed
from pervade._vade import VaDE

if TYPE_CHECKING:
    from anndata import AnnData

    from pervade._core import _Table

__all__ = ["add_map", "add_markers", "annotate", "fit", "rows"]


def rows(adata: AnnData, *, layer: str | None = None, obsm: str | None = None) -> Any:
    """The rows of an AnnData object.

    Parameters
    ----------
    adata : AnnData
        The object.
    layer : str, default=None
        Take this layer instead of `X`.
    obsm : str, default=None
        Take this entry of `obsm`, such as "X_pca", instead of `X`.

    Returns
    -------
    X : array, sparse matrix or data frame of shape (n_obs, n_features)
        The entry itself, not a copy.
    """
    if layer is not None and obsm is not None:
        raise ValueError(f"rows come from the layer `{layer}` or from obsm `{obsm}`, not from both")
    for name, key, entries in (("layer", layer, adata.layers), ("obsm", obsm, adata.obsm)):
        if key is not None:
            if key not in entries:
                raise ValueError(f"there is no {name} `{key}`; there are {sorted(entries)}")
            return entries[key]
    if adata.X is None:
        raise ValueError("this object has no `X`: name a layer or an entry of obsm")
    return adata.X


def column_names(adata: AnnData, *, obsm: str | None) -> list[str] | None:
    """The names of the columns of `X` and of every layer; entries of `obsm` have none, or their own."""
    return None if obsm is not None else [str(name) for name in adata.var_names]


def given_rows(
    adata: AnnData, vade: VaDE, *, layer: str | None, obsm: str | None
) -> tuple[_Table, list[str] | None]:
    """The rows for a fitted model, as the library reads them, and the names of their columns."""
    vade._use()  # an error if it is not fitted
    X, names = rows(adata, layer=layer, obsm=obsm), column_names(adata, obsm=obsm)
    return (table(vade, X, reset=False) if names is None else named_apart(vade, X, names)), names


def fit(
    adata: AnnData,
    n_clusters: Any = 8,
    *,
    layer: str | None = None,
    obsm: str | None = None,
    key_added: str = "vade",
    **parameters: Any,
) -> VaDE:
    """Fit VaDE to the rows of an AnnData object and write the result into it.

    The model stores `var_names`, which `annotate` matches, unless the rows come from `obsm`. For raw counts, name their
    layer and use `likelihood="counts"`.

    Parameters
    ----------
    adata : AnnData
        The object; see `annotate` for what is written into it.
    n_clusters : int or "auto", default=8
        Number of clusters.
    layer : str, default=None
        Take rows from this layer instead of `X`.
    obsm : str, default=None
        Take rows from this entry of `obsm` instead of `X`.
    key_added : str, default="vade"
        The name of the results.
    **parameters
        Further parameters of :class:`pervade.VaDE`.

    Returns
    -------
    vade : VaDE
        The fitted estimator.

    Examples
    --------
    >>> import anndata
    >>> from pervade.anndata import fit
    >>> from pervade.datasets import load_digits
    >>> adata = anndata.AnnData(load_digits().data)
    >>> vade = fit(adata, 10, hidden=(32,), latents=4, pretrain_epochs=1, epochs=1, random_state=0)
    >>> adata.obsm["X_vade"].shape, adata.obs["vade"].nunique()
    ((1797, 4), 10)
    """
    X = rows(adata, layer=layer, obsm=obsm)
    vade = VaDE(n_clusters, **parameters)._fit(X, column_names(adata, obsm=obsm))
    annotate(adata, vade, layer=layer, obsm=obsm, key_added=key_added)
    return vade


def annotate(
    adata: AnnData,
    vade: VaDE,
    *,
    layer: str | None = None,
    obsm: str | None = None,
    key_added: str = "vade",
) -> None:
    """Write the results of a fitted model for the rows of an AnnData object into it.

    For `key_added="vade"`: `obsm["X_vade"]`, latent means; `obs["vade"]`, clusters as categories;
    `obs["vade_probability"]`, the probability of the cluster; `uns["vade"]`, parameters and history of the model.
    `add_map` and `add_markers` write more.

    If the model has column names, the columns of `X` and of layers are matched by `var_names`: another order makes
    no difference, other names raise a `ValueError`.

    Parameters
    ----------
    adata : AnnData
        The object.
    vade : VaDE
        A fitted model, which may have been fitted to other rows.
    layer, obsm : str, default=None
        Where the rows are, as in `fit`.
    key_added : str, default="vade"
        The name of the results.
    """
    from pandas import Categorical, Index  # a dependency of AnnData

    given, column_names = given_rows(adata, vade, layer=layer, obsm=obsm)
    model, options = vade._use(), vade._compute_options()
    probabilities = model.assign(given, options, column_names=column_names)[1]
    latents = model.embed(given, options, column_names=column_names)
    clusters = probabilities.argmax(axis=1)  # equals `predict`, without another pass
    adata.obsm[f"X_{key_added}"] = latents
    names = Index([str(cluster) for cluster in range(vade.n_clusters_)])
    adata.obs[key_added] = Categorical.from_codes(clusters, categories=names)
    adata.obs[f"{key_added}_probability"] = probabilities[np.arange(len(clusters)), clusters]
    adata.uns[key_added] = about(vade, layer=layer, obsm=obsm)


def add_map(
    adata: AnnData,
    vade: VaDE,
    *,
    layer: str | None = None,
    obsm: str | None = None,
    key_added: str = "vade",
) -> None:
    """Lay the cells of an AnnData object out in the plane, as `VaDE.map` does.

    For `key_added="vade"` the positions are `obsm["X_vade_map"]`: scanpy draws them with
    `sc.pl.embedding(adata, "vade_map", color="vade")`.

    Parameters
    ----------
    adata : AnnData
        The object.
    vade : VaDE
        A fitted model.
    layer, obsm : str, default=None
        Where the rows are, as in `fit`.
    key_added : str, default="vade"
        The name of the results.

    Examples
    --------
    After the example of `fit`:

    >>> add_map(adata, vade)  # doctest: +SKIP
    >>> adata.obsm["X_vade_map"].shape  # doctest: +SKIP
    (1797, 2)
    """
    given, names = given_rows(adata, vade, layer=layer, obsm=obsm)
    with followed(vade.verbose) as on_event:
        adata.obsm[f"X_{key_added}_map"] = vade._use().map(
            given, vade._compute_options(), column_names=names, on_event=on_event
        )


def add_markers(
    adata: AnnData,
    vade: VaDE,
    *,
    layer: str | None = None,
    obsm: str | None = None,
    key_added: str = "vade",
    n_genes: int = 100,
) -> None:
    """Write the genes that tell each cluster from the other cells, as `VaDE.describe` finds them, into an AnnData object.

    For `key_added="vade"` they are `uns["vade_markers"]`, in the form of scanpy's `rank_genes_groups`: structured arrays with
    one field per cluster, genes that are higher in the cluster first. `names`; `scores`, the difference of the means in
    standard deviations of the gene; `auc`, the probability that a cell of the cluster has a higher value than another
    cell. `sc.get.rank_genes_groups_df(adata, None, key="vade_markers")` and `sc.pl.rank_genes_groups(adata,
    key="vade_markers")` read them.

    `pvals`, `pvals_adj` and `logfoldchanges`, which these readers ask for, are NaN. The clusters were made from the same
    genes, so that p-values would always be tiny; and whether values are logarithms is not known.

    Parameters
    ----------
    adata : AnnData
        The object.
    vade : VaDE
        A fitted model.
    layer, obsm : str, default=None
        Where the rows are, as in `fit`.
    key_added : str, default="vade"
        The name of the results; the clusters are `obs[key_added]`, as `annotate` writes them.
    n_genes : int, default=100
        Genes per cluster, at most.

    Examples
    --------
    After the example of `fit`:

    >>> add_markers(adata, vade, n_genes=5)  # doctest: +SKIP
    >>> adata.uns["vade_markers"]["names"].shape  # doctest: +SKIP
    (5,)
    """
    if n_genes < 1:
        raise ValueError(f"`n_genes` is {n_genes}, must be at least 1")
    given, names = given_rows(adata, vade, layer=layer, obsm=obsm)
    # The most telling columns may be lower in the cluster: of more of them, the higher ones are taken.
    found = vade._use().describe(
        given, vade._compute_options(), columns=4 * n_genes, rows=0, column_names=names
    )
    arrays = marker_arrays(json.loads(found), n_genes)
    params = {"groupby": key_added, "reference": "rest", "method": "auc", "use_raw": False, "corr_method": "none"}
    adata.uns[f"{key_added}_markers"] = {"params": params if layer is None else {**params, "layer": layer}, **arrays}


def marker_arrays(clusters: list[dict[str, Any]], n_genes: int) -> dict[str, NDArray[Any]]:
    """Structured arrays with one field per cluster that has cells."""
    ordered = [sorted(cluster["columns"], key=lambda c: -(c["difference"] or 0.0)) for cluster in clusters]
    groups = {str(k): columns for k, columns in enumerate(ordered) if columns}
    n = min([n_genes, *(len(columns) for columns in groups.values())])

    def array(name: str | None, dtype: Any) -> NDArray[Any]:
        made = np.full(n, np.nan if name is None else 0, [(group, dtype) for group in groups])
        for group, columns in groups.items() if name is not None else ():
            made[group] = [np.nan if column[name] is None else column[name] for column in columns[:n]]
        return made

    return {
        "names": array("column", object),
        "scores": array("difference", np.float32),
        "auc": array("auc", np.float32),
        **{name: array(None, np.float64) for name in ("pvals", "pvals_adj", "logfoldchanges")},
    }


def about(vade: VaDE, *, layer: str | None, obsm: str | None) -> dict[str, Any]:
    """Parameters, scores and history of a model, in types that an .h5ad file can store."""
    given = {name: value for name, value in vade.get_params(deep=False).items() if name != "callback"}
    source = f"layers[{layer!r}]" if layer is not None else f"obsm[{obsm!r}]" if obsm is not None else "X"
    figures = {"elbo": getattr(vade, "lower_bound_", None), "modularity": vade.modularity_, "stability": vade.stability_}
    return {
        "params": {name: storable(value) for name, value in given.items() if value is not None},
        "rows": source,
        "n_clusters": vade.n_clusters_,
        **{name: value for name, value in figures.items() if value is not None},
        "history": {
            "loss": np.array([epoch["loss"] for epoch in vade.history_["pretrain"]]),
            "elbo": np.array([epoch["elbo"] for epoch in vade.history_["joint"]]),
        },
    }


def storable(value: Any) -> Any:
    """Numbers, text and arrays unchanged, anything else as text."""
    if isinstance(value, (int, float, str)):
        return value
    return np.asarray(value) if isinstance(value, (tuple, list)) else str(value)
