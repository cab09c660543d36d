"""Tables with categories, truth values, dates and gaps: data frames of every kind, and arrays with NaN."""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from pervade import FitWarning, VaDE

N = 240
GROUP = np.arange(N) % 3
SIZES = ["small", "middle", "large"]


def pandas_frame():
    """Three groups in columns of every type, with gaps in most of them."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "patient_id": rng.permutation(N) + 1000,
        "height": GROUP * 4 + rng.normal(size=N),
        "visits": pd.array(rng.poisson(1 + 6 * GROUP), dtype="Int64"),
        "colour": pd.Categorical.from_codes((GROUP + (rng.random(N) < 0.1)) % 3, ["red", "green", "blue"]),
        "size": pd.Categorical.from_codes(GROUP, SIZES, ordered=True),
        "smoker": rng.random(N) < 0.2 + 0.3 * GROUP,
        "insured": pd.array(rng.random(N) < 0.2 + 0.3 * GROUP, dtype="boolean"),
        "town": np.array(["Ulm", "Bonn", "Jena"], object)[(GROUP + (rng.random(N) < 0.1)) % 3],
        "plan": pd.array(np.where(rng.random(N) < 0.5, "A", "B"), dtype="string"),
        "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(GROUP * 100 + rng.integers(0, 30, N), unit="D"),
        "seen": pd.Timestamp("2024-01-01", tz="Europe/Berlin") + pd.to_timedelta(rng.integers(0, 10**6, N), unit="s"),
        "wait": pd.to_timedelta(rng.integers(10, 100, N), unit="s"),
        "always": 7,
    })  # fmt: skip
    for j, name in enumerate(["height", "visits", "colour", "size", "insured", "town", "plan", "since", "seen", "wait"]):
        frame.loc[frame.index[j :: 12 + j], name] = None
    return frame


TYPES = {
    "patient_id": "keep", "height": "number", "visits": "count", "colour": "category", "size": "ordered", "smoker": "yes/no",
    "insured": "yes/no", "town": "category", "plan": "yes/no", "since": "date", "seen": "date", "wait": "number",
}  # fmt: skip
KINDS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


def as_pandas(frame):
    return frame if isinstance(frame, pd.DataFrame) else frame.to_pandas()


@pytest.fixture(params=KINDS)
def frame(request):
    return KINDS[request.param](pandas_frame())


@pytest.fixture(scope="module")
def fitted():
    """Fits one estimator per kind of frame."""
    made = {}

    def fit(frame):
        kind = type(frame)
        if kind not in made:
            vade = VaDE(3, column_types={"visits": "count"}, pretrain_epochs=40, epochs=5, random_state=0, device="cpu")
            made[kind] = vade.fit(frame)
        return made[kind]

    return fit


def take(frame, names):
    return frame[names] if isinstance(frame, pd.DataFrame) else frame.select(names)


def test_columns_are_given_types(fitted, frame):
    vade = fitted(frame)
    # The categories of polars have no order.
    expected = TYPES | ({"size": "category"} if isinstance(frame, pl.DataFrame) else {})
    assert vade.column_types_ == expected
    assert list(vade.feature_names_in_) == list(pandas_frame().columns) and vade.n_features_in_ == 13
    assert vade.preparation_ == vade.likelihood_ == "typed"
    assert set(vade.explained_) == set(TYPES) - {"patient_id"}
    assert vade.explained_["size"] > 0.5 and max(vade.explained_.values()) <= 1
    for part in ("numbers: height", "left out: patient_id (an id", "always (always 7)", "cells are missing in 10"):
        assert part in vade.description_
    assert adjusted_rand_score(GROUP, vade.labels_) > 0.8
    assert vade.lower_bound_ == pytest.approx(vade.score(frame), rel=1e-6)


def test_kinds_of_frames_agree(fitted):
    first, other = (fitted(KINDS[kind](pandas_frame())) for kind in ("pandas", "pyarrow"))
    assert other.column_types_ == first.column_types_ and other._model.to_bytes() == first._model.to_bytes()


def test_columns_are_matched_by_name(fitted, frame, tmp_path):
    vade = fitted(frame)
    names = list(pandas_frame().columns)
    turned = take(frame, names[::-1])
    without = take(frame, [name for name in names if name not in ("patient_id", "always")])
    vade.save(tmp_path / "v.pervade")
    loaded = VaDE.load(tmp_path / "v.pervade", device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in (vade, loaded, pickle.loads(pickle.dumps(vade))):
            for rows in (frame, turned, without):
                np.testing.assert_array_equal(model.predict(rows), vade.labels_)
                np.testing.assert_array_equal(model.transform(rows), vade.transform(frame))
            assert model.column_types_ == vade.column_types_ and model.explained_ == vade.explained_
    with pytest.raises(ValueError, match="missing: `town`"):
        vade.predict(take(frame, [name for name in names if name != "town"]))
    more = as_pandas(frame).assign(extra=1.0)
    with pytest.raises(ValueError, match="unexpected: `extra`"):
        vade.predict(more)


def test_gaps_are_filled_and_nothing_else_changes(fitted, frame):
    vade = fitted(frame)
    given = as_pandas(frame)
    for draw in (False, True):
        filled = vade.impute(frame, draw=draw)
        assert type(filled) is type(frame)
        full = as_pandas(filled)
        assert list(full.columns) == list(given.columns) and not full.isna().any().any()
        if isinstance(frame, pd.DataFrame):
            assert dict(full.dtypes) == dict(given.dtypes)
        for name in given.columns:
            known = given[name].notna()
            assert full[name][known].tolist() == given[name][known].tolist(), name
        if isinstance(frame, pl.DataFrame):
            assert filled.schema == frame.schema
        if isinstance(frame, pa.Table):
            assert filled.schema.types == frame.schema.types
    assert set(full["colour"]) <= {"red", "green", "blue"} and list(full["size"].cat.categories) == SIZES
    gap = given["size"].isna()
    right = np.array(SIZES)[GROUP[gap]]
    assert (np.asarray(as_pandas(vade.impute(frame))["size"][gap]) == right).mean() > 0.8
    assert as_pandas(vade.impute(take(frame, list(given.columns)[::-1]))).shape == given.shape


def test_samples_have_the_types_of_the_table(fitted, frame):
    vade = fitted(frame)
    made, clusters = vade.sample(50, cluster=1)
    assert type(made) is type(frame) and (clusters == 1).all()
    rows = as_pandas(made)
    assert list(rows.columns) == [name for name in pandas_frame().columns if name not in ("patient_id", "always")]
    assert set(rows["town"]) <= {"Ulm", "Bonn", "Jena"} and set(rows["size"]) <= set(SIZES)
    assert rows["smoker"].dtype == bool and rows["visits"].dtype == np.int64 and (rows["visits"] >= 0).all()
    assert pd.to_datetime(rows["since"]).between("2019-01-01", "2022-01-01").all()
    assert rows["height"].dtype == np.float64
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (vade.predict(made) == 1).mean() > 0.7
    means = as_pandas(vade.sample(200, cluster=1, mean=True)[0])["height"]
    assert means.std() < as_pandas(vade.sample(200, cluster=1)[0])["height"].std()
    assert as_pandas(vade.inverse_transform(vade.transform(frame))).shape == (N, 11)


def test_unknown_levels_are_missing(fitted):
    vade = fitted(pandas_frame())
    frame = pandas_frame().astype({"colour": object})
    gone, unknown = frame.copy(), frame.copy()
    gone.loc[0, "colour"], unknown.loc[0, "colour"] = None, "purple"
    with pytest.warns(UserWarning, match=r"1 cell of `colour` has a level that the fit did not have \(such as `purple`\)") as w:
        found = vade.predict_proba(unknown)
    assert w[0].filename == __file__
    np.testing.assert_array_equal(found, vade.predict_proba(gone))


def test_options(small):
    frame = pandas_frame()[["height", "visits", "town"]].assign(score=np.where(GROUP == 0, -999, GROUP % 3), note=[[i] for i in range(N)])
    vade = small(column_types={"visits": "number", "score": "number"}, keep_columns=["note"], missing=[-999]).fit(frame)
    types = {"height": "number", "visits": "number", "town": "category", "score": "number", "note": "keep"}
    assert vade.column_types_ == types
    assert (vade.impute(frame)["score"] > -10).all()
    assert clone(vade).get_params() == vade.get_params()
    with pytest.raises(ValueError, match="column `note` is of type object .*`keep_columns`"):
        small().fit(frame)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"column_types": {"age": "count"}}, "`column_types` is .*no column is named `age`; the columns are `height`"),
        ({"column_types": {"height": "conut"}}, "`column_types` is {'height': 'conut'}, must be one of number"),
        ({"column_types": {"town": "number"}}, "column `town`"),
        ({"column_types": {"town": "ordered"}}, r"order of its levels is not known\nhint: .*`column_types={\"town\": \"ordered: "),
        ({"column_types": ["height"]}, "must be a dict"),
        ({"keep_columns": ["age"]}, "`keep_columns` is `age`, but no column is named `age`"),
        ({"keep_columns": "height"}, "must be a list such as"),
        ({"prepare": "standardise"}, "`prepare` is standardise, but the table has categories"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused(small, parameters, message):
    with pytest.raises(ValueError, match=message) as caught:
        small(**parameters).fit(pandas_frame()[["height", "town", "smoker"]])
    assert "--" not in str(caught.value)


def test_arrays_with_gaps(small, tmp_path):
    X, truth = make_blobs(200, 6, centers=3, random_state=3)
    full = X.copy()
    rng = np.random.default_rng(0)
    holes = rng.random(X.shape) < 0.1
    X[holes] = np.nan
    vade = small(pretrain_epochs=60, epochs=10, hidden=(32,)).fit(X)
    assert adjusted_rand_score(truth, vade.labels_) > 0.8
    filled = vade.impute(X)
    np.testing.assert_array_equal(filled[~holes], X[~holes])
    assert np.abs(filled - full)[holes].mean() < 0.5 * np.abs(full - full.mean(axis=0))[holes].mean()
    assert vade.impute(X.astype(np.float32)).dtype == np.float32
    assert vade.sample(5)[0].shape == (5, 6) and set(vade.column_types_.values()) == {"number"}
    vade.save(tmp_path / "v.pervade")
    np.testing.assert_array_equal(VaDE.load(tmp_path / "v.pervade", device="cpu").predict(X), vade.labels_)
    np.testing.assert_array_equal(vade.predict(pd.DataFrame(X)), vade.labels_)
    with pytest.raises(ValueError, match="the first is inf in row 1, column 2"):
        small().fit(np.where(np.arange(6) == 1, np.inf, X))
    with pytest.raises(ValueError, match="row 3 has no values"):
        small().fit(np.where(np.arange(200)[:, None] == 2, np.nan, X))


def test_models_of_alike_columns_take_no_gaps(small, rows):
    vade = small(prepare="standardise").fit(rows)
    assert vade.column_types_ == {} and vade.explained_ == {} and vade.description_ is None
    assert (vade.preparation_, vade.likelihood_) == ("standardise", "gaussian-fixed")
    bad = rows.copy()
    bad[7, 3] = np.nan
    for use in (vade.predict, vade.score_samples, vade.impute):
        with pytest.raises(ValueError, match="1 values are not finite numbers; the first is NaN in row 8, column 4"):
            use(bad)


def test_columns_left_out_of_frames_without_names(small, rows, tmp_path):
    frame = pd.DataFrame(np.column_stack([np.full(200, 3.0), rows]))
    vade = small().fit(frame)
    assert vade.n_features_in_ == 6 and list(vade.column_types_) == [f"column_{j}" for j in range(2, 7)]
    np.testing.assert_array_equal(vade.predict(frame.to_numpy()), vade.labels_)
    vade.save(tmp_path / "v.pervade")
    np.testing.assert_array_equal(VaDE.load(tmp_path / "v.pervade", device="cpu").predict(frame), vade.labels_)


def test_ids_are_left_out_of_tables_of_grey_levels(small):
    from pervade.datasets import load_digits

    pixels = load_digits().data[:200]
    frame = pd.DataFrame(pixels, columns=[f"p{j}" for j in range(64)])
    named = frame.assign(id=[f"image {i}" for i in range(200)])
    vade = small().fit(named)
    assert vade.column_types_ == {} and vade.n_features_in_ == 65
    np.testing.assert_array_equal(vade.predict(named), vade.labels_)
    assert vade._model.to_bytes() == small().fit(frame)._model.to_bytes()


def test_the_description_comes_before_training(small, capfd):
    events = []
    small(verbose=1, callback=events.append).fit(pandas_frame()[["height", "town", "smoker"]])
    assert events[0]["event"] == "described" and "categories: town (3 levels)" in events[0]["description"]
    assert "categories: town (3 levels)" in capfd.readouterr().err
    assert json.dumps(events[0])


def test_frames_of_objects(small):
    frame = pd.DataFrame({
        "whole": pd.Series([int(g) * 10 + i % 7 if i % 9 else None for i, g in enumerate(GROUP)], dtype=object),
        "truth": pd.Series([bool(g) if i % 11 else None for i, g in enumerate(GROUP)], dtype=object),
        "day": pd.Series([pd.Timestamp("2020-01-01").date() + pd.Timedelta(days=int(g) * 50 + i % 10) for i, g in enumerate(GROUP)], dtype=object),
        "text": [str(g * 2.5 + i % 5) if i % 13 else "?" for i, g in enumerate(GROUP)],
    })  # fmt: skip
    vade = small().fit(frame)
    assert list(vade.column_types_.values()) == ["number", "yes/no", "date", "number"]
    filled = vade.impute(frame)
    assert not filled.isna().any().any() and isinstance(filled["truth"][0], bool) and "?" not in set(filled["text"])
    assert all(isinstance(text, str) for text in filled["text"])


def test_draws_do_not_depend_on_how_the_rows_are_cut(fitted):
    frame = pandas_frame()
    vade = fitted(frame)
    whole = vade.impute(frame, draw=True)
    parts = [vade.impute(frame[first : first + 70], draw=True, first_row=first) for first in range(0, N, 70)]
    pd.testing.assert_frame_equal(pd.concat(parts), whole)
    # More rows than are passed to the model at once.
    many = pd.concat([frame] * 40, ignore_index=True)
    tail = vade.impute(many[9000:], draw=True, first_row=9000)
    pd.testing.assert_frame_equal(tail, vade.impute(many, draw=True)[9000:])
    with pytest.raises(ValueError, match="`first_row` is -1"):
        vade.impute(frame, draw=True, first_row=-1)


def gaps_by_group(kind):
    """Noise; which cells are missing tells two groups apart."""
    rng = np.random.default_rng(1)
    group = np.arange(300) % 2
    X = rng.normal(size=(300, 6))
    lacking = np.where(group[:, None] == 0, np.arange(6) < 3, np.arange(6) >= 3)
    X[lacking & (rng.random(X.shape) < 0.9)] = np.nan
    return (pd.DataFrame(X, columns=list("abcdef")) if kind == "frame" else X), group


@pytest.mark.parametrize("kind", ["frame", "array"])
def test_gaps_that_mean_something(small, tmp_path, kind):
    X, group = gaps_by_group(kind)
    quick = {"hidden": (24,), "pretrain_epochs": 40, "epochs": 10, "random_state": 1}
    assert adjusted_rand_score(small(2, **quick).fit(X).labels_, group) < 0.2
    vade = small(2, missing_informative=True, **quick).fit(X)
    assert adjusted_rand_score(vade.labels_, group) > 0.9
    name = "a is missing" if kind == "frame" else "column_1 is missing"
    assert vade.column_types_[name] == "yes/no" and vade.explained_[name] > 0.1
    assert vade.n_features_in_ == 6 and len(vade.column_types_) == 12
    # Saved, loaded, pickled, and used on rows in another order.
    vade.save(tmp_path / "m.pervade")
    loaded = VaDE.load(tmp_path / "m.pervade")
    assert loaded.missing_informative and loaded.n_features_in_ == 6
    for other in (loaded, pickle.loads(pickle.dumps(vade))):
        np.testing.assert_array_equal(other.predict(X), vade.labels_)
    # Rows out have the columns of the table.
    filled = vade.impute(X)
    assert filled.shape == (300, 6) and not np.isnan(np.asarray(filled)).any()
    made, _ = vade.sample(200)
    assert np.asarray(made).shape == (200, 6) and 0.3 < np.isnan(np.asarray(made)).mean() < 0.6
    assert not np.isnan(np.asarray(vade.sample(200, mean=True)[0])).any()
    assert np.asarray(vade.inverse_transform(vade.transform(X))).shape == (300, 6)
    assert vade.describe(X)["column"].str.endswith(" is missing: yes").any()


def test_informative_gaps_in_columns_of_every_type_and_order(small):
    frame = pandas_frame()
    vade = small(missing_informative=True).fit(frame)
    assert "size is missing" in vade.column_types_ and "smoker is missing" not in vade.column_types_
    np.testing.assert_array_equal(vade.predict(frame[frame.columns[::-1]]), vade.labels_)
    for kind, make in KINDS.items():
        vade._frame_kind = kind
        made = as_pandas(vade.sample(100)[0])
        assert list(made.columns) == list(frame.columns[1:-1]), kind
        assert made["size"].isna().any() and made["since"].isna().any() and not made["smoker"].isna().any(), kind
        assert not as_pandas(vade.impute(make(frame)))[list(made.columns)].isna().to_numpy().any(), kind


def test_informative_gaps_without_gaps(small, rows):
    for X in (rows, sp.csr_matrix(rows)):
        with pytest.warns(FitWarning, match="no cell is missing"):
            vade = small(missing_informative=True).fit(X)
        np.testing.assert_array_equal(vade.labels_, small().fit(X).labels_)
    with pytest.raises(ValueError, match="`missing_informative` is 'yes', must be True or False"):
        small(missing_informative="yes").fit(rows)
