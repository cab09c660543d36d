"""Models as ONNX graphs, run by onnxruntime."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from test_types import pandas_frame

from pervade import VaDE
from pervade.datasets import load_digits

OUTPUTS = ["cluster", "probabilities", "latents", "score"]
PENGUINS = Path(__file__).parents[2] / "testdata/readers/penguins.csv"
# Rounding of a sum of some hundred terms.
CLOSE = 1e-5


def session(vade, **options):
    """A session that runs the graph, which must be valid and without constants that nothing uses."""
    content = vade.to_onnx(**options)
    graph = onnx.load_from_string(content)
    onnx.checker.check_model(graph, full_check=True)
    assert (graph.ir_version, graph.opset_import[0].version) == (8, 17)
    used = {name for node in all_nodes(graph.graph) for name in node.input}
    assert {constant.name for constant in graph.graph.initializer} <= used
    return onnxruntime.InferenceSession(content)


def all_nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from all_nodes(attribute.g)


def check(vade, X, feeds, *, batches=(1, 7)):
    """The graph gives what the estimator gives, for all rows at once and in batches."""
    runtime = session(vade)
    assert [output.name for output in runtime.get_outputs()] == OUTPUTS
    cluster, probabilities, latents, score = runtime.run(OUTPUTS, feeds)
    assert cluster.dtype == np.int64
    np.testing.assert_array_equal(cluster, vade.predict(X))
    np.testing.assert_allclose(probabilities, vade.predict_proba(X), rtol=0, atol=CLOSE)
    np.testing.assert_allclose(latents, vade.transform(X), rtol=1e-5, atol=CLOSE)
    np.testing.assert_allclose(score, vade.score_samples(X), rtol=1e-5, atol=1e-4)
    for n in batches:
        part = runtime.run(OUTPUTS, {name: values[:n] for name, values in feeds.items()})
        for some, every in zip(part, (cluster, probabilities, latents, score), strict=True):
            np.testing.assert_allclose(some, every[:n], rtol=1e-5, atol=CLOSE)
    return runtime


def columns(vade):
    entries = {entry.key: entry.value for entry in onnx.load_from_string(vade.to_onnx()).metadata_props}
    return json.loads(entries["pervade.columns"])


def feeds_of(vade, frame):
    """The columns of a data frame as inputs, as the metadata say."""
    feeds = {}
    for column in columns(vade):
        cells = frame[column["name"]]
        if column["given_as"] == "text":
            values = cells.astype(object).where(cells.notna(), "").to_numpy(object)
        elif column["given_as"].startswith("seconds"):
            utc = pd.to_datetime(cells, utc=True)
            values = ((utc - pd.Timestamp(0, tz="UTC")).dt.total_seconds()).to_numpy(float)
        elif pd.api.types.is_timedelta64_dtype(cells):
            values = cells.dt.total_seconds().to_numpy(float)
        else:
            values = pd.to_numeric(cells, errors="coerce").astype("Float64").to_numpy(float, na_value=np.nan)
        feeds[column["input"]] = values.reshape(-1, 1)
    return feeds


def test_digits(small):
    X = load_digits().data
    vade = small(10, hidden=(32, 64), latents=6, n_components=17).fit(X)
    runtime = check(vade, X, {"rows": X.astype(np.float32)})
    assert runtime.get_inputs()[0].shape == ["batch", 64]


@pytest.mark.parametrize("table", ["digits", "sparse", "mixed"])
def test_default_settings(table):
    """Networks of the default size round more than small ones do; each row by itself, and all of them."""
    if table == "digits":
        X, k = load_digits().data, 10
    elif table == "sparse":
        X, k = sp.random(600, 300, density=0.05, format="csr", dtype=np.float32, random_state=1), 4
    else:
        X, k = pd.read_csv(PENGUINS).drop(columns="species"), 3
    vade = VaDE(k, device="cpu", random_state=0).fit(X)
    if table == "mixed":
        feeds = feeds_of(vade, X)
    else:
        feeds = {"rows": (X.toarray() if table == "sparse" else X).astype(np.float32)}
    runtime = check(vade, X, feeds)
    rows = [{name: values[i : i + 1] for name, values in feeds.items()} for i in range(200)]
    singly = np.concatenate([runtime.run(["probabilities"], row)[0] for row in rows])
    np.testing.assert_allclose(singly, vade.predict_proba(X)[:200], rtol=0, atol=CLOSE)


@pytest.mark.parametrize("prepare", ["none", "unit", "standardise", "row-norm"])
@pytest.mark.parametrize("likelihood", ["gaussian", "gaussian-fixed", "multinomial"])
def test_a_sparse_table_made_dense(small, prepare, likelihood):
    X = sp.random(300, 60, density=0.2, format="csr", dtype=np.float32, random_state=1)
    X[7] = 0  # a row without a length
    X.eliminate_zeros()
    vade = small(4, prepare=prepare, likelihood=likelihood).fit(X)
    check(vade, X, {"rows": X.toarray()})


@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_grey_levels_and_a_shifted_range(small, dtype):
    X = np.random.default_rng(0).integers(3, 250, (200, 40)).astype(dtype)
    X[:100, :20] //= 3
    check(small(2, prepare="unit", likelihood="bernoulli").fit(X), X, {"rows": X.astype(np.float32)})


def test_counts(small):
    rng = np.random.default_rng(0)
    rates = rng.gamma(0.5, 4, (3, 50))
    X = sp.csr_matrix(rng.poisson(rates[np.arange(240) % 3] * rng.uniform(0.3, 3, (240, 1)))).astype(np.float32)
    vade = small(3, likelihood="counts").fit(X)
    new = sp.vstack([X, sp.csr_matrix((1, 50), dtype=np.float32)]).tocsr()  # and a row of zeros
    check(vade, new, {"rows": new.toarray()})


@pytest.mark.parametrize("shape", [(8, 8), (16, 4), (7, 9), (5, 6, 3)])
def test_pictures_with_convolutions(small, shape):
    if shape == (8, 8):
        X = load_digits().data[:400].astype(np.float32)
    else:
        X = np.random.default_rng(0).random((120, int(np.prod(shape))), dtype=np.float32)
    vade = small(3, network="conv", hidden=(8, 12, 16), image_shape=shape).fit(X)
    check(vade, X, {"rows": X})


def test_penguins_with_gaps_and_categories(small):
    frame = pd.read_csv(PENGUINS).drop(columns="species")
    vade = small(3, hidden=(32,), pretrain_epochs=40, epochs=10).fit(frame)
    runtime = check(vade, frame, feeds_of(vade, frame))
    assert {i.name: i.type for i in runtime.get_inputs()}["island"] == "tensor(string)"
    # Unknown levels and empty words are missing.
    strange = frame.head(3).assign(island=["Atlantis", "", None])
    feeds = feeds_of(vade, strange)
    with pytest.warns(UserWarning, match="a level that the fit did not have"):
        expected = vade.predict_proba(strange)
    np.testing.assert_allclose(runtime.run(["probabilities"], feeds)[0], expected, atol=CLOSE)
    # `nan` and `None` are what numpy makes of missing words.
    feeds["island"] = np.array([["Atlantis"], [np.nan], [None]], object)
    np.testing.assert_allclose(runtime.run(["probabilities"], feeds)[0], expected, atol=CLOSE)


def test_gaps_that_mean_something(small):
    frame = pd.read_csv(PENGUINS).drop(columns="species")
    vade = small(3, hidden=(32,), pretrain_epochs=40, epochs=10, missing_informative=True).fit(frame)
    runtime = check(vade, frame, feeds_of(vade, frame))
    assert len(runtime.get_inputs()) == frame.shape[1]
    numbers = frame.select_dtypes("number").to_numpy()
    check(small(3, missing_informative=True).fit(numbers), numbers, {"rows": numbers})


def test_columns_of_every_type(small):
    frame = pandas_frame()
    vade = small(3, column_types={"visits": "count"}).fit(frame)
    types = {column["type"] for column in columns(vade)}
    assert types == {"number", "count", "category", "ordered", "yes/no", "date"}
    check(vade, frame, feeds_of(vade, frame))


def test_levels_that_are_numbers_or_rare_and_words_for_missing_cells(small):
    rng = np.random.default_rng(0)
    n = 400
    towns = np.array(["Ulm", "Bonn", "Jena", *(f"village {i}" for i in range(6))], object)
    frame = pd.DataFrame({
        "x": np.where(np.arange(n) % 20 == 3, -999, rng.normal(size=n) + np.arange(n) % 2 * 4),
        "amount": np.exp(rng.normal(3, 2, n)),
        "grade": rng.choice([1, 2, 5], n),
        "town": towns[np.where(rng.random(n) < 0.97, rng.integers(0, 3, n), rng.integers(3, 9, n))],
    })  # fmt: skip
    types = {"grade": "category", "amount": "positive"}
    vade = small(2, column_types=types, missing=["-999", "unknown"]).fit(frame)
    assert next(c for c in columns(vade) if c["name"] == "town")["levels"][-1] == "(other)"
    runtime = check(vade, frame, feeds_of(vade, frame))
    new = frame.head(5).assign(
        town=["Atlantis", "unknown", "", "Ulm", "NA"], grade=[3, 1, 2, 5, 1], amount=[-1, 0, 1, 1e9, 2]
    )
    with pytest.warns(UserWarning, match="taken as missing"):
        expected = vade.predict_proba(new)
    found = runtime.run(["probabilities"], feeds_of(vade, new))[0]
    np.testing.assert_allclose(found, expected, atol=CLOSE)


def test_small_tables_of_numbers_are_one_matrix(small):
    X = load_iris().data
    vade = small(3).fit(X)
    runtime = check(vade, X, {"rows": X})
    assert runtime.get_inputs()[0].type == "tensor(double)"
    # The mixture on the rows is in the graph for complete rows only.
    X[1, 2] = np.nan
    cluster, score = runtime.run(["cluster", "score"], {"rows": X[:3]})
    np.testing.assert_array_equal(cluster, vade.predict(X[:3]))
    assert np.isnan(score).tolist() == [False, True, False]


def test_large_numbers_keep_their_digits(small):
    rng = np.random.default_rng(0)
    X = 1e9 + rng.normal(size=(300, 4)) + np.arange(300)[:, None] % 3 * 5
    X[::7, 1] = np.nan
    check(small(3).fit(X), X, {"rows": X})


def test_a_graph_without_score(small, rows, tmp_path):
    vade = small().fit(rows)
    runtime = session(vade, score=False)
    assert [output.name for output in runtime.get_outputs()] == OUTPUTS[:3]
    assert len(vade.to_onnx(score=False)) < len(vade.to_onnx())
    np.testing.assert_array_equal(runtime.run(["cluster"], {"rows": rows.astype(float)})[0], vade.predict(rows))
    assert vade.to_onnx(tmp_path / "m.onnx", score=False) is None
    assert (tmp_path / "m.onnx").read_bytes() == vade.to_onnx(score=False)


def test_the_same_model_gives_the_same_bytes(small, tmp_path):
    X = load_iris().data
    vade = small().fit(X)
    vade.save(tmp_path / "m.pervade")
    content = vade.to_onnx()
    assert content == vade.to_onnx() == VaDE.load(tmp_path / "m.pervade").to_onnx()
    entries = {entry.key: entry.value for entry in onnx.load_from_string(content).metadata_props}
    about = json.loads(VaDE.load(tmp_path / "m.pervade")._model.info())
    assert entries["pervade.model_checksum"] == about["checksum"]
    assert entries["pervade.score"] == "log_density"


def test_any_name_of_a_column_is_an_input(small):
    names = ["cluster", "rows", "pervade.gemm_1", "a/b \U0001f427", "line\nbreak", "\u202etac", "score"]
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.normal(size=60) for name in names[:-1]})
    frame[names[-1]] = rng.choice(["a", "b"], 60)
    vade = small(2).fit(frame)
    feeds = feeds_of(vade, frame)
    assert {"column.cluster", "rows", "a/b \U0001f427", "column.score"} <= feeds.keys()
    check(vade, frame, feeds)


def test_refusals(small, rows, tmp_path):
    with pytest.raises(NotFittedError):
        small().to_onnx()
    vade = small().fit(rows)
    with pytest.raises(OSError, match="cannot write"):
        vade.to_onnx(tmp_path / "missing" / "m.onnx")
    if sys.platform != "win32" and os.geteuid() != 0:
        tmp_path.chmod(0o500)
        with pytest.raises(PermissionError):
            vade.to_onnx(tmp_path / "m.onnx")
        tmp_path.chmod(0o700)
