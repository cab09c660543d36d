"""The scikit-learn estimator."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from numbers import Integral
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    DensityMixin,
    TransformerMixin,
)
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_array

from pervade import _core
from pervade._card import Card, SomeRows
from pervade._clusters import Clusters
from pervade._columns import TypedColumns, gap_columns
from pervade._criteria import Criteria
from pervade._export import Exports
from pervade._frames import as_frame
from pervade._input import table
from pervade._progress import shown
from pervade._restarts import Work, train_on_workers
from pervade._settings import (
    as_column_options,
    as_image,
    as_parameters,
    as_seed,
    as_settings,
)
from pervade._shown import Shown
from pervade._warnings import FitWarning


class VaDE(
    TypedColumns,
    Clusters,
    Criteria,
    Shown,
    Card,
    Exports,
    # scikit-learn has no type information.
    ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin, DensityMixin, BaseEstimator,  # type: ignore[misc]
):
    """Variational Deep Embedding: a variational auto-encoder whose prior is a mixture of Gaussians.

    It clusters rows, gives a probability for each cluster, maps rows to a small latent space and generates
    new rows of any cluster. The same `random_state` gives the same model, to the byte, for any number of
    threads, and the same as the command `pervade fit --seed`.

    Parameters are the settings of the command with the same names, except for `n_clusters`, `n_components`,
    `n_init` and `random_state`, which follow scikit-learn. `None` means the value of the recipe or, if it
    has none, one decided from the data; the values of the recipe `robust` are in brackets.

    Tables may have categories, truth values, dates and missing cells: each column of a data frame is given a type
    (`column_types_`), which decides how it is scaled and how likely its cells are. Ids and free text are left out.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of clusters. "auto" finds it: see `levels_`.
    n_components : int, default=None
        Gaussians of the prior, grouped into the clusters; at least one per cluster. [15 per cluster, but no
        more than one per 20 rows]
    recipe : {"robust", "paper"}, default="robust"
        Values of the parameters that are `None`: "robust" is accurate and repeatable, "paper" is the
        published model and schedule, for reproduction.
    likelihood : {"auto", "bernoulli", "gaussian", "gaussian-fixed", "counts", "multinomial"}, default=None
        Family of p(x|z) of all columns: "counts" for tables of counts such as reads per gene, "multinomial" for weights
        of terms such as tf-idf. ["auto": by the types of the columns, if they have types; else multinomial for sparse rows of
        equal Euclidean norm without negative values, bernoulli if all prepared values lie in [0, 1], else gaussian-fixed]
    prepare : {"none", "unit", "standardise", "row-norm"}, default=None
        How values of all columns are scaled. [By the types of the columns, if they have types; else "unit" for bytes, which are divided by 255, and for integers up to 255;
        "none" for columns that already share a moderate scale; else "standardise"]
    epochs : int, default=None
        Epochs of joint training. [40 to 80, fewer for more rows]
    pretrain_epochs : int, default=None
        Epochs of pretraining. [30 to 200, fewer for more rows]
    n_init : int, default=1
        Models trained from different random numbers; one is made of them by `choose`, without labels. Under
        `joblib.parallel_config(backend, n_jobs=..)` the workers of joblib train one each at a time: processes ("loky"),
        "threading", "dask" or "ray". The result is the same, to the byte. With CUDA they are trained in this process.
    random_state : int, RandomState instance or None, default=None
        The seed, or a generator to draw it from. With `None` every fit differs.
    device : str, default="auto"
        "cpu", "cuda", "cuda:N", or "auto": CUDA if there is a device that works.
    n_jobs : int, default=None
        Threads. `None` means as many as OpenMP would use, so that `OMP_NUM_THREADS` and the limits of
        `threadpoolctl` apply; -1 means all cores. The result does not depend on it. On workers of joblib, the
        threads of each worker; `None` means its part of the cores.
    verbose : int, default=0
        1 shows a progress bar for each stage (lines on stderr if tqdm is not installed).
    callback : callable, default=None
        Called with every event of a fit as a dict, such as `{"event": "trained", "epoch": 3, "elbo": ..}`;
        events are "described" (what the columns were taken for), "stage-started", "steps" and "working" (several times a second), "pretrained" and "trained"
        (an epoch ended), "scored" (a state, without labels), "start-began" and "start-chosen" (with several
        `starts`), "remark" and "stage-ended". An exception that it raises ends the fit. Where workers of joblib train the
        `n_init` models, their events stay there; after "described" there are "restarts-started" and, after each, "restart-ended", such as
        `{"event": "restart-ended", "restart": 3, "done": 1, "restarts": 10}`, and then those of the rest of the fit.
    precision : {"fp32", "tf32"}, default="fp32"
        Rounding of the factors of matrix products on CUDA.
    latents : int, default=None
        Columns of the latent space. [12, or half the number of columns if that is less]
    network : {"dense", "conv"}, default=None
        What the networks are made of: fully connected layers, or convolutions for images. ["dense"]
    hidden : sequence of int, default=None
        Widths of the encoder's hidden layers; the decoder mirrors them. With `network="conv"` all but the last are
        the channels of convolutions. [(500, 500, 2000) for large and wide tables, fewer for
        others; with "conv" (32, 64, 256)]
    image_shape : tuple of int, default=None
        Height and width, or height, width and channels (1 or 3, last), of rows that are images; `network="conv"`
        needs it.
    column_types : dict of str to str, default=None
        Types of columns by name, for those that should not have the one that is found: "number", "positive" (amounts, on
        a logarithmic scale), "count", "yes/no", "category", "ordered" (in an order such as
        "ordered: low < middle < high"), "date" or "keep". Columns without names are "column_1" and so on.
    keep_columns : list of str, default=None
        Columns that are left out, like "keep" in `column_types`.
    missing : list of str, default=None
        Words and numbers that stand for missing cells, such as "-999", beside NaN, None, empty text, "NA", "?" and the
        like.
    missing_informative : bool, default=False
        Whether missing cells mean something: clusters may then also differ in which cells are missing. `column_types_`,
        `explained_` and `describe` have a yes/no column, such as "age is missing", for each column with gaps.
    gamma : {"exact", "sampled"}, default=None
        Treatment of q(c|x): the closed form, or the paper's sample. ["exact"]
    samples : int, default=None
        Monte-Carlo samples of z per row. [1]
    noise_variance : float, default=None
        The variance of "gaussian-fixed". [that of the auto-encoder's residual]
    batch : int, default=None
        Rows per step of joint training. [256]
    learning_rate : float, default=None
        Learning rate of Adam for the networks. [0.0005]
    mixture_learning_rate : float, default=None
        Learning rate of Adam for the mixture. [0.0005]
    decay : float, default=None
        Factor applied to both learning rates every `decay_every` epochs. [0.65]
    decay_every : int, default=None
        Epochs between decays. [a tenth of the epochs]
    learning_rate_floor : float, default=None
        Lower bound of the learning rates. [0]
    epsilon : float, default=None
        Adam's epsilon in joint training. [0.0001]
    pretrain : {"end-to-end", "stacked"}, default=None
        How to pretrain: the whole auto-encoder, or layer by layer first. ["end-to-end"]
    pretrain_batch : int, default=None
        Rows per step of pretraining. [256]
    pretrain_learning_rate : float, default=None
        Learning rate of Adam in pretraining. [0.001]
    cool_down : int, default=None
        Final steps of pretraining, over which its learning rate falls to zero. [2000]
    layer_epochs : int, default=None
        Epochs per layer of stacked pretraining. [15]
    dropout : float, default=None
        Dropout rate of stacked pretraining. [0.2]
    mixture_starts : int, default=None
        Starts of k-means and EM; the one with the best clusters by modularity is kept. [10]
    starts : int, default=None
        Trials of each of the `n_init` models; the one with the highest modularity after ten epochs of joint
        training continues. [3 for wide tables of 5,000 to 20,000 rows, otherwise 1]
    neighbours : int, default=None
        Neighbours of each row in the graph. [10]
    graph_rows : int, default=None
        Rows in the graph, at most; above, a uniform sample. [70000]
    neighbour_weight : float, default=None
        Weight of the neighbour term in joint training, in nats: rows that are neighbours should belong to one
        cluster. [a quarter of the number of columns; 0 with `recipe="paper"`]
    choose : {"consensus", "modularity", "elbo"}, default=None
        How one model is made of `n_init`: trained towards the vote of three or more, or the best of them by a
        label-free score. ["consensus"; "elbo" with `recipe="paper"`]
    keep : {"best", "last"}, default=None
        Which state of a run becomes the model. ["best"]
    shares : int, default=None
        Equal parts of each batch, a power of two: the model is then that of the command with the same `--shares`,
        however many ranks train it. [1]

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each fitted row. Not set for a loaded model.
    agreement_ : ndarray of shape (n_samples,) or None
        The share of the `n_init` models that agree on the cluster of each row, if the model is their
        consensus: low for rows between clusters. Where the clusters are those of a mixture or of k-means on the rows of
        a small table, the models' clusters are matched to them. None with one or two models, or if `choose` keeps one
        of them. Not set for a loaded model.
    weights_ : ndarray of shape (n_components,)
        Weights of the prior's Gaussians.
    means_, covariances_ : ndarray of shape (n_components, latents)
        Means and variances of the Gaussians: covariances are diagonal.
    component_labels_ : ndarray of shape (n_components,)
        Cluster of each Gaussian.
    lower_bound_ : float
        The mean of `score_samples` over the fitted rows by the model that was kept, in nats per row. Not set for a
        loaded model. `history_["joint"]` has the ELBO of every epoch, estimated from samples of z.
    n_iter_ : int
        Epochs of joint training.
    history_ : dict
        History of the fit: `pretrain`, `joint` and `states`, one dict per epoch or scored state; `kept`,
        the index of the state that became the model; `remarks` for the user.
    n_clusters_ : int
        Number of clusters.
    modularity_ : float
        Modularity of the clusters on the neighbour graph of the latents; of a consensus, of the prepared rows.
    stability_ : float or None
        Mean agreement (ARI) of the `n_init` models, if there is more than one.
    levels_ : list of dict or None
        With `n_clusters="auto"`, every number of clusters that was compared: `clusters`, `stability` (mean
        agreement, ARI, of the clusters from `mixture_starts` mixtures), `modularity`, `stable` (the stability is a
        local maximum) and `picked`. None if the number was given, or with `mixture_starts=1`.
    column_types_ : dict of str to str
        The type of each column that is clustered, or "keep" if it is left out; empty if all columns are numbers alike.
    explained_ : dict of str to float
        How much of each column the latents explain: one if they determine it, zero if they say nothing about it. Empty
        if `column_types_` is.
    description_ : str or None
        What the columns were taken for, in a paragraph. Not set for a loaded model.
    preparation_ : str
        How the rows were scaled: one of the values of `prepare`, "counts", or "typed" if columns have types.
    likelihood_ : str
        The family of p(x|z): one of the values of `likelihood`, or "typed" if columns have types.
    n_features_in_ : int
        Columns of the data.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if the data had them. Those that are clustered, for a loaded model.

    Notes
    -----
    Columns of data frames with categories, dates, ids or the like are matched by name, in any order. For frames of
    numbers alone the order must be that of the fit, as scikit-learn demands of every estimator. Frames of numbers with
    more than 200 columns are read as arrays.

    `fit` reads uint8, float16, float32 and float64 arrays in C order in place, whatever their size; sparse
    rows stay sparse; other types and orders are copied once. The GIL is released during the fit:
    another thread must not change the array meanwhile. Ctrl-C ends a fit within a second and leaves the
    estimator unfitted.

    Examples
    --------
    >>> from pervade import VaDE
    >>> from pervade.datasets import load_digits
    >>> X = load_digits().data
    >>> vade = VaDE(n_clusters=10, hidden=(32,), latents=4, pretrain_epochs=2, epochs=1, random_state=0)
    >>> vade.fit(X).predict_proba(X[:2]).shape
    (2, 10)
    >>> new_rows, clusters = vade.sample(3, cluster=7)
    >>> new_rows.shape, clusters
    ((3, 64), array([7, 7, 7], dtype=int32))
    """

    def __init__(
        self,
        n_clusters: int | Literal["auto"] = 8,
        *,
        n_components: int | None = None,
        recipe: str = "robust",
        likelihood: str | None = None,
        prepare: str | None = None,
        epochs: int | None = None,
        pretrain_epochs: int | None = None,
        n_init: int = 1,
        random_state: int | np.random.RandomState | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[dict[str, Any]], object] | None = None,
        precision: str = "fp32",
        latents: int | None = None,
        network: str | None = None,
        hidden: tuple[int, ...] | None = None,
        image_shape: tuple[int, ...] | None = None,
        column_types: dict[str, str] | None = None,
        keep_columns: list[str] | None = None,
        missing: list[str] | None = None,
        missing_informative: bool = False,
        gamma: str | None = None,
        samples: int | None = None,
        noise_variance: float | None = None,
        batch: int | None = None,
        learning_rate: float | None = None,
        mixture_learning_rate: float | None = None,
        decay: float | None = None,
        decay_every: int | None = None,
        learning_rate_floor: float | None = None,
        epsilon: float | None = None,
        pretrain: str | None = None,
        pretrain_batch: int | None = None,
        pretrain_learning_rate: float | None = None,
        cool_down: int | None = None,
        layer_epochs: int | None = None,
        dropout: float | None = None,
        mixture_starts: int | None = None,
        starts: int | None = None,
        neighbours: int | None = None,
        graph_rows: int | None = None,
        neighbour_weight: float | None = None,
        choose: str | None = None,
        keep: str | None = None,
        shares: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_components = n_components
        self.recipe = recipe
        self.likelihood = likelihood
        self.prepare = prepare
        self.epochs = epochs
        self.pretrain_epochs = pretrain_epochs
        self.n_init = n_init
        self.random_state = random_state
        self.device = device
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback
        self.precision = precision
        self.latents = latents
        self.network = network
        self.hidden = hidden
        self.image_shape = image_shape
        self.column_types = column_types
        self.keep_columns = keep_columns
        self.missing = missing
        self.missing_informative = missing_informative
        self.gamma = gamma
        self.samples = samples
        self.noise_variance = noise_variance
        self.batch = batch
        self.learning_rate = learning_rate
        self.mixture_learning_rate = mixture_learning_rate
        self.decay = decay
        self.decay_every = decay_every
        self.learning_rate_floor = learning_rate_floor
        self.epsilon = epsilon
        self.pretrain = pretrain
        self.pretrain_batch = pretrain_batch
        self.pretrain_learning_rate = pretrain_learning_rate
        self.cool_down = cool_down
        self.layer_epochs = layer_epochs
        self.dropout = dropout
        self.mixture_starts = mixture_starts
        self.starts = starts
        self.neighbours = neighbours
        self.graph_rows = graph_rows
        self.neighbour_weight = neighbour_weight
        self.choose = choose
        self.keep = keep
        self.shares = shares

    def fit(self, X: Any, y: object = None) -> Self:
        """Fit the model to rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.
        y : Ignored
            Not used: labels never reach a fit.

        Returns
        -------
        self : VaDE
            The fitted estimator.

        Warns
        -----
        FitWarning
            Once for each remark about the fit, such as clusters that collapsed.
        """
        return self._fit(X)

    def _fit(self, X: Any, column_names: list[str] | None = None) -> Self:
        """Like `fit`, for columns whose names are not part of `X`."""
        self._forget()
        parameters = self.get_params(deep=False)
        settings, columns = as_settings(parameters), as_column_options(parameters)
        frame = as_frame(X)
        rows = table(self, X if frame is None else frame, reset=True)
        if column_names is not None:
            self.feature_names_in_ = np.asarray(column_names, dtype=object)
        names = getattr(self, "feature_names_in_", None)
        bars = shown() if self.verbose else None
        listeners = [listener for listener in (bars, self.callback) if listener is not None]

        def on_event(event: str) -> None:
            for listener in listeners:
                listener(json.loads(event))

        work = Work(
            settings,
            self._compute_options(),
            columns._replace(names=None if names is None else [str(name) for name in names]),
            as_image(self.image_shape, self.n_features_in_),
        )
        listener = on_event if listeners else None
        several = isinstance(self.n_init, Integral) and self.n_init > 1
        try:
            restarts = train_on_workers(rows, self.n_init, work, self.n_jobs, listener) if several else None
            model, labels, agreement, lower_bound, remarks, description, note, some_rows = _core.fit(
                rows,
                work.settings,
                work.options,
                work.columns,
                image=work.image,
                on_event=listener,
                restarts=restarts,
            )
        finally:
            if bars is not None:
                bars.close()
        if note is not None:
            warnings.warn(note, stacklevel=3)
        self._take(model)
        self._frame_kind = "pandas" if frame is None else frame.kind
        self._some_rows = SomeRows(*some_rows)
        self.description_ = description
        self.labels_ = labels
        self.agreement_ = agreement
        self.lower_bound_ = lower_bound
        for remark in remarks:
            warnings.warn(remark, FitWarning, stacklevel=3)
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """The latent mean of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        latents : ndarray of shape (n_samples, latents)
            Rows of the latent space.
        """
        return self._use().embed(table(self, X, reset=False), self._compute_options())

    def inverse_transform(self, X: Any) -> Any:
        """Decode latents: the means of p(x|z), in the units of the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, latents)
            Latents, such as those of `transform`.

        Returns
        -------
        rows : ndarray or data frame of shape (n_samples, n_features)
            Rows in the units of the data, as in `sample`.
        """
        model = self._use()
        latents = check_array(X, dtype=np.float32, order="C")
        if latents.shape[1] != model.n_latents:
            raise ValueError(f"`X` has {latents.shape[1]} columns, the latent space has {model.n_latents}")
        return self._in_own_types(model.decode(latents, self._compute_options()))

    def sample(
        self, n_samples: int = 1, cluster: int | None = None, *, mean: bool = False
    ) -> tuple[Any, NDArray[np.int32]]:
        """Generate new rows.

        Draws a Gaussian of the cluster by its weight, a latent from it, and the row from p(x|z); of images, of values in
        [0, 1] and of weights of terms the row is the mean of p(x|z). With an int as `random_state` each call gives the
        same rows.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        cluster : int, default=None
            The cluster; `None` draws clusters in the proportions of the prior.
        mean : bool, default=False
            Whether each row is the mean of p(x|z), and levels are the most likely ones, instead of a sample.

        Returns
        -------
        X : ndarray or data frame of shape (n_samples, n_features)
            The rows, in the units of the data. A data frame of the columns that are clustered if they are not all
            numbers: levels by name, whole numbers as integers, dates as dates.
        labels : ndarray of shape (n_samples,)
            The cluster of each row.
        """
        model = self._use()
        if n_samples < 1:
            raise ValueError(f"`n_samples` is {n_samples}, must be at least 1")
        if cluster is not None and not 0 <= cluster < self.n_clusters_:
            raise ValueError(f"`cluster` is {cluster}, must be below {self.n_clusters_}, the number of clusters")
        rows, clusters = model.generate(
            cluster, n_samples, as_seed(self.random_state), self._compute_options(), mean=mean
        )
        return self._in_own_types(rows), clusters

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file that the command `pervade` and `VaDE.load` read.

        Parameters
        ----------
        path : str or path-like
            The file, by convention `*.pervade`.
        """
        self._use().save(path)

    @classmethod
    def load(cls, path: str | PathLike[str], *, device: str = "auto", n_jobs: int | None = None) -> Self:
        """Load a fitted estimator from a model file, written by `save` or by the command.

        Parameters
        ----------
        path : str or path-like
            The file.
        device, n_jobs
            Parameters of the class that are not stored in the file.

        Returns
        -------
        vade : VaDE
            Fitted; it has no `labels_`, `agreement_` and `lower_bound_`, since the file does not hold the rows.

        Warns
        -----
        FitWarning
            If the file has no checksum, because an earlier version of pervade wrote it.
        """
        model = _core.Model.load(path)
        for remark in model.remarks:
            warnings.warn(remark, FitWarning, stacklevel=2)
        about = json.loads(model.info())
        image = about["image"]
        shape = None if image is None else (image["height"], image["width"], image["channels"])
        schema = about.get("schema") or {}
        n_columns = about["n_columns"] - len(gap_columns(schema))
        vade = cls(
            **as_parameters(about["settings"]),
            image_shape=shape,
            missing=schema.get("missing"),
            missing_informative=n_columns < about["n_columns"],
            device=device,
            n_jobs=n_jobs,
        )
        vade.n_features_in_ = n_columns
        if about["column_names"] is not None:
            vade.feature_names_in_ = np.asarray(about["column_names"][:n_columns], dtype=object)
        else:
            # Columns are matched by position, so that those left out count.
            vade.n_features_in_ += len(schema.get("kept", ())) + len(schema.get("left_out", ()))
        vade._take(model)
        return vade

    def _take(self, model: _core.Model) -> None:
        """Sets `model` as the fitted model, and the attributes that describe it."""
        about = json.loads(model.info())
        record = about["record"]
        self._model = model
        self._some_rows = None
        self._n_features_out = model.n_latents
        self._take_columns(about)
        self.weights_, self.means_, self.covariances_, self.component_labels_ = model.components()
        self.n_clusters_ = int(about["n_clusters"])
        self.history_ = record
        self.n_iter_ = len(record["joint"])
        self.modularity_ = float(record["states"][record["kept"]]["modularity"])
        self.stability_ = about["stability"]
        self.levels_ = record.get("levels")

    def _forget(self) -> None:
        """Removes the results of an earlier fit, so that a failed fit leaves none of them."""
        private = ("_model", "_n_features_out", "_schema", "_is_typed", "_clustered", "_frame_kind", "_kept", "_some_rows")
        for name in [n for n in vars(self) if n.endswith("_") or n in private]:
            delattr(self, name)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for remark in self._model.remarks if hasattr(self, "_model") else ():
            warnings.warn(remark, FitWarning, stacklevel=2)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        # For estimators with `predict_proba`, the checks of sparse input require these tags, classifier or not.
        tags.classifier_tags = ClassifierTags()
        # Latents are single precision, whatever the type of the rows.
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags
