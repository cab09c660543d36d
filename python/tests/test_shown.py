"""Descriptions, the map and the page: the same as those of the command, and what is refused."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from pervade import Report, VaDE

HOSTILE = ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "\u202eltr", "a'b", "🐧"]


@pytest.fixture
def fitted(small, rows):
    return small().fit(rows)


def command(folder, *arguments):
    done = subprocess.run([sys.executable, "-m", "pervade", *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def content(page):
    """What the page shows, and the rest of it."""
    found = re.search(r'<script type="application/json" id="content">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1]), page[: found.start(1)] + page[found.end(1) :]


def test_the_command_gives_the_same(fitted, rows, tmp_path):
    np.save(tmp_path / "x.npy", rows)
    fitted.save(tmp_path / "m.pervade")
    command(tmp_path, "map", "m.pervade", "x.npy", "--out", "map.csv")
    theirs = pd.read_csv(tmp_path / "map.csv")
    positions = fitted.map(rows)
    assert positions.dtype == np.float32 and positions.shape == (200, 2)
    np.testing.assert_array_equal(theirs[["x", "y"]].to_numpy(np.float32), positions)

    command(tmp_path, "describe", "m.pervade", "x.npy", "--out", "columns.csv")
    theirs = pd.read_csv(tmp_path / "columns.csv", dtype={"inside": str, "outside": str})
    ours = fitted.describe(rows)
    pd.testing.assert_frame_equal(ours[theirs.columns], theirs)

    command(tmp_path, "report", "m.pervade", "x.npy", "--out", "theirs.html")
    theirs, their_rest = content((tmp_path / "theirs.html").read_text())
    ours, our_rest = content(VaDE.load(tmp_path / "m.pervade").report(rows, title="x.npy").html)
    assert our_rest == their_rest
    # Only the calls are named as they are typed.
    assert any("vade.predict(X)" in step for step in ours["verdict"].pop("next_steps"))
    assert any("pervade assign" in step for step in theirs["verdict"].pop("next_steps"))
    calls = [dict(page["provenance"]).pop("Command of this page") for page in (ours, theirs)]
    assert calls == ["vade.report(X)", "pervade report m.pervade x.npy"]
    for page in (ours, theirs):
        # The command reads an array as columns with types, which have another checksum.
        own = ("Command of this page", "Checksum of the data of this page")
        page["provenance"] = [line for line in page["provenance"] if line[0] not in own]
    assert ours == theirs


def test_frames_with_names_types_and_labels(tmp_path):
    rng = np.random.default_rng(0)
    group = np.arange(150) % 3
    frame = pd.DataFrame({
        "id": [f"bird {i}" for i in range(150)],
        "bill": group * 4 + rng.normal(size=150),
        "sex": np.where(rng.random(150) < 0.2 + 0.3 * group, "f", "m"),
    })  # fmt: skip
    frame.loc[7, "bill"] = np.nan
    vade = VaDE(3, pretrain_epochs=20, epochs=2, random_state=0, device="cpu").fit(frame)
    assert vade.column_types_["id"] == "keep"
    assert {"bill", "sex: f"} <= set(vade.describe(frame)["column"]) | {"sex: f"}
    page = vade.report(frame, labels=group.astype(str))
    shown, _ = content(page.html)
    assert "bird" in json.dumps(shown["clusters"]) and "Against the labels" in json.dumps(shown["verdict"])
    frame.to_csv(tmp_path / "x.csv", index=False)
    vade.save(tmp_path / "m.pervade")
    command(tmp_path, "report", "m.pervade", "x.csv", "--out", "theirs.html")
    theirs, _ = content((tmp_path / "theirs.html").read_text())
    ours, _ = content(vade.report(frame, title="x.csv").html)
    assert ours["clusters"] == theirs["clusters"] and ours["map"] == theirs["map"]


def test_rows_and_clusters(fitted, rows):
    clusters = fitted.describe(rows, "clusters")
    np.testing.assert_array_equal(clusters["size"], np.bincount(fitted.labels_, minlength=3))
    assert clusters["share"].sum() == pytest.approx(1) and (clusters["confidence"] <= 1).all()
    columns = fitted.describe(rows, limit=2)
    assert list(columns) == [*clusters, "column", "difference", "auc", "inside", "outside"]
    assert columns.groupby("cluster").size().tolist() == [2, 2, 2]
    best = columns.iloc[0]
    j, inside = int(best["column"].rpartition(" ")[2].rpartition("_")[2]) - 1, fitted.labels_ == best["cluster"]
    pairs = rows[inside, j][:, None] - rows[~inside, j]
    assert best["auc"] == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean(), abs=1e-6)
    examples = fitted.describe(rows, "rows", limit=3)
    typical = examples[examples["kind"] == "typical"]
    assert typical.groupby("cluster").size().tolist() == [3, 3, 3]
    np.testing.assert_array_equal(fitted.labels_[examples["row"]], examples["cluster"])
    np.testing.assert_allclose(fitted.predict_proba(rows).max(axis=1)[examples["row"]], examples["confidence"])
    np.testing.assert_allclose(fitted.score_samples(rows)[examples["row"]], examples["score"])


def test_sparse_rows_and_images(small, rows):
    terms = sparse.csr_matrix(np.abs(np.round(rows)))
    vade = small().fit(terms)
    assert vade.map(terms).shape == (200, 2) and len(vade.describe(terms)) > 0
    pictures = np.tile(np.abs(rows[:, :1]), (1, 16)).astype(np.float32)
    vade = small(image_shape=(4, 4)).fit(pictures)
    assert content(vade.report(pictures).html)[0]["clusters"][0]["mean_picture"]


def test_the_page_is_shown_in_a_frame_of_its_own(fitted, rows, tmp_path):
    report = fitted.report(rows, tmp_path / "page.html", title='<b>"x"</b>')
    assert isinstance(report, Report) and (tmp_path / "page.html").read_text() == report.html
    shown = report._repr_html_()
    assert shown.count("<") == 2 and 'sandbox="allow-scripts allow-downloads"' in shown and "allow-same-origin" not in shown
    assert "MB" in repr(report)
    report.save(tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "page.html").read_bytes()
    with pytest.raises(OSError, match="cannot write"):
        report.save(tmp_path / "nowhere" / "page.html")


def test_hostile_names_stay_text(small, rows):
    frame = pd.DataFrame(rows, columns=HOSTILE)
    vade = small().fit(frame)
    page = vade.report(frame, title=HOSTILE[0]).html
    assert "<script>alert(1)" not in page and "<img" not in page
    assert set(vade.describe(frame)["column"]) == set(HOSTILE)
    assert HOSTILE[0] not in vade._repr_html_()


def test_of_many_rows_a_sample_is_on_the_map(fitted, rows):
    with pytest.warns(UserWarning, match="sample of 50 of the 200 rows"):
        page = fitted.report(rows, points=50)
    assert len(page.html) < len(fitted.report(rows).html)


def test_what_is_refused(fitted, small, rows, monkeypatch):
    for call in (small().describe, small().map, small().report):
        with pytest.raises(NotFittedError):
            call(rows)
    for call in (fitted.describe, fitted.map, fitted.report):
        with pytest.raises(ValueError, match="3 features"):
            call(rows[:, :3])
    with pytest.raises(ValueError, match="`what` is 'all', must be"):
        fitted.describe(rows, "all")
    with pytest.raises(ValueError, match="`limit` is 0"):
        fitted.describe(rows, limit=0)
    with pytest.raises(ValueError, match="`points` is 0"):
        fitted.report(rows, points=0)
    with pytest.raises(ValueError, match="labels"):
        fitted.report(rows, labels=[1, 2])
    with pytest.raises(ValueError, match="the label of row 3 is missing"):
        fitted.report(rows, labels=["a"] * 3 + [None] * 197)
    with pytest.raises(ValueError, match="one per row"):
        fitted.report(rows, labels=rows)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ValueError, match="needs pandas"):
        fitted.describe(rows)


def test_progress_of_the_map(small, rows, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    vade = small(verbose=1).fit(rows)
    capsys.readouterr()
    vade.map(rows)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "map" and lines[-1] == "map: 100 %"
    monkeypatch.undo()
    vade.map(rows)
    assert "map: 100%" in capsys.readouterr().err
