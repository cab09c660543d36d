"""The card of a fitted estimator, above scikit-learn's diagram."""

import pickle
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pervade import VaDE


def card(vade):
    # It is XML, too: everything in it is closed and escaped.
    return ET.fromstring(re.search(r'<div class="pervade-card">.*?</p></div>', vade._repr_html_(), re.DOTALL)[0])


def test_the_diagram_is_kept(small, rows):
    vade = small()
    assert "pervade-card" not in vade._repr_html_() and "sk-top-container" in vade._repr_html_()
    vade.fit(rows)
    shown, bundle = vade._repr_html_(), vade._repr_mimebundle_()
    assert "pervade-card" in shown and shown.index("pervade-card") < shown.index("sk-top-container")
    assert "pervade-card" in bundle["text/html"] and bundle["text/plain"] == repr(vade)
    with sklearn.config_context(display="text"):
        assert not hasattr(vade, "_repr_html_") and "text/html" not in vade._repr_mimebundle_()
    assert "sk-top-container" in make_pipeline(StandardScaler(), small()).fit(rows)._repr_html_()


def test_sizes_and_confidences(small, rows):
    vade = small().fit(rows)
    lines = card(vade).findall(".//tbody/tr")
    cells = [["".join(cell.itertext()) for cell in line] for line in lines]
    sizes, sure = np.bincount(vade.labels_), vade.predict_proba(rows).max(axis=1)
    assert [line[0] for line in cells] == ["0", "1", "2"]
    assert [int(line[2]) for line in cells] == sizes.tolist()
    assert [line[4] for line in cells] == [f"{sure[vade.labels_ == k].mean():.2f}" for k in range(3)]
    text = "".join(card(vade).itertext())
    assert "3 clusters in 200 rows of 5 columns" in text and "n_init=10" in text
    assert f"{np.mean(sure > 0.9):.0%}" in text


def test_the_map_has_every_row_of_a_small_table(small, rows):
    vade = small().fit(rows)
    dots = "".join(path.get("d") for path in card(vade).iter("path"))
    assert dots.count("M") == 200 and [name.text for name in card(vade).iter("text")] == ["0", "1", "2"]
    assert vade._card() == vade._card() == pickle.loads(pickle.dumps(vade))._card()


def test_long_tables_have_a_sample(small):
    X = np.random.default_rng(0).normal(size=(5000, 3)).astype(np.float32)
    vade = small(2, pretrain_epochs=1, epochs=1).fit(X)
    text = "".join(card(vade).itertext())
    assert "a sample of 1,000 rows" in text
    rows = vade._some_rows
    assert rows.latents.shape == (1000, 2) and len(rows.confidences) == 1000
    np.testing.assert_array_equal(rows.latents[:25], vade.transform(X[:25]))
    np.testing.assert_array_equal(rows.latents[-25:], vade.transform(X[-25:]))


def test_restarts_many_clusters_and_loaded_models(small, rows, tmp_path):
    vade = small(20, n_init=2).fit(rows)
    text = "".join(card(vade).itertext())
    assert f"Stability over 2 restarts: {vade.stability_:.3f}" in text and "and 4 more" in text
    vade.save(tmp_path / "m.pervade")
    loaded = VaDE.load(tmp_path / "m.pervade")
    text = "".join(card(loaded).itertext())
    assert "20 clusters" in text and "confidence" not in text and card(loaded).find(".//svg") is None


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", "</style><img src=x onerror=alert(1)>"])
def test_nothing_of_the_users_is_markup(small, rows, hostile):
    vade = small().fit(rows)
    vade.set_params(column_types={hostile: "number"})
    assert hostile not in vade._repr_html_()
