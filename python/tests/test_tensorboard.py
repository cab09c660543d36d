"""`fit --tensorboard`, read by TensorBoard's own reader."""

import json
import subprocess
import sys

import numpy as np
import pytest
from google.protobuf import text_format
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_inspector import get_inspection_units
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

from pervade import VaDE

TERMS = ["elbo", "reconstruction", "latent", "cluster", "entropy", "neighbour", "learning_rate"]
QUICK = ["--hidden", "8", "--latents", "2", "--device", "cpu"]


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    groups = np.arange(90) % 3
    cells = rng.normal(size=(90, 3)) + 4 * groups[:, None]
    lines = [f'{a:.4f},{b:.4f},{c:.4f},"id\t{i}",{"xyz"[groups[i]]}\n' for i, (a, b, c) in enumerate(cells)]
    path = tmp_path / "t.csv"
    path.write_text("a,b,c,id,y\n" + "".join(lines))
    return path


def fit(folder, *flags, epochs=("3", "4"), status=0):
    lengths = ["--pretrain-epochs", epochs[0], "--epochs", epochs[1]]
    command = [sys.executable, "-m", "pervade", "fit", "t.csv", "-k", "3", "--labels", "column:y", *QUICK, *lengths, *flags]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == status, ran.stderr
    return ran


def curves(folder):
    found = EventAccumulator(str(folder))
    found.Reload()
    return {tag: [(e.step, e.value) for e in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def logged(path, event, restart):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if line["event"] == event and line["restart"] == restart]


def test_every_curve_is_found(table):
    folder = table.parent
    fit(folder, "--restarts", "3", "--tensorboard", "runs", "--log", "log.jsonl", "--out", "m.pervade")
    runs = {unit.name for unit in get_inspection_units(str(folder / "runs"))}
    assert {name.removeprefix(str(folder / "runs")).strip("/") for name in runs} == {
        "m", "m/restart-1", "m/restart-2", "m/restart-3", "m/final",
    }  # fmt: skip
    about = json.loads(VaDE.load(folder / "m.pervade")._model.info())
    result = curves(folder / "runs/m")
    np.testing.assert_allclose(result["result/stability"], [(0, about["stability"])], rtol=1e-6)
    np.testing.assert_allclose(result["result/modularity_of_rows"], [(0, about["prepared_modularity"])], rtol=1e-6)
    assert result["result/clusters"] == [(0, 3.0)]
    for restart, name in enumerate(["restart-1", "restart-2", "restart-3", "final"]):
        found = curves(folder / "runs/m" / name)
        trained = logged(folder / "log.jsonl", "trained", restart)
        for term in TERMS:
            expected = [line.get(term, line["terms"].get(term, 0.0)) for line in trained]
            steps, values = zip(*found[f"joint/{term}"], strict=True)
            assert list(steps) == [line["epoch"] for line in trained]
            np.testing.assert_allclose(values, expected, rtol=1e-6)
        scored = logged(folder / "log.jsonl", "scored", restart)
        for score in ["modularity", "silhouette", "live_clusters", "occupancy_entropy", "assignment_entropy"]:
            expected = [(line["scores"]["epoch"], line["scores"][score]) for line in scored]
            np.testing.assert_allclose(found[f"score/{score}"], expected, rtol=1e-6)
        losses = [(line["epoch"], line["loss"]) for line in logged(folder / "log.jsonl", "pretrained", restart)]
        assert name == "final" or len(losses) == 3
        np.testing.assert_allclose(found.get("pretrain/loss", []), losses, rtol=1e-6)


def test_the_projector_has_latents_and_the_map(table):
    folder = table.parent
    fit(folder, "--tensorboard", "runs", "--keep-columns", "id", "--out", "m.pervade")
    run = folder / "runs/m"
    config = text_format.Parse((run / "projector_config.pbtxt").read_text(), ProjectorConfig())
    assert [e.tensor_name for e in config.embeddings] == ["latents", "map"]
    for embedding in config.embeddings:
        assert np.loadtxt(run / embedding.tensor_path, delimiter="\t").shape == (90, 2)
    header, *lines = (run / config.embeddings[0].metadata_path).read_text().splitlines()
    assert header.split("\t") == ["cluster", "probability", "row", "label", "id"]
    assert lines[4].split("\t")[2:] == ["5", "y", "id 4"]
    command = [sys.executable, "-m", "pervade", "assign", "m.pervade", "t.csv", "--labels", "column:y", "--json"]
    assigned = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    assert [int(line.split("\t")[0]) for line in lines] == json.loads(assigned)["assignments"]


def test_large_tables_are_sampled(tmp_path):
    rows = np.random.default_rng(0).normal(size=(12_000, 3)).round(3)
    np.savetxt(tmp_path / "t.csv", np.c_[rows, np.arange(12_000) % 2], delimiter=",", header="a,b,c,y", comments="")
    short = ["--graph-rows", "2000", "--mixture-starts", "1", "--components", "4"]
    ran = fit(tmp_path, "--tensorboard", "runs", *short, epochs=("1", "1"))
    assert "10,000 of the rows" in ran.stderr
    assert len((tmp_path / "runs/t/tensors.tsv").read_text().splitlines()) == 10_000


def test_runs_never_mix(table):
    folder = table.parent
    (folder / "runs/m").mkdir(parents=True)
    (folder / "runs/m/precious").write_text("notes")
    for run in ["m-2", "m-3"]:
        fit(folder, "--tensorboard", "runs", "--out", "m.pervade")
        assert len(curves(folder / "runs" / run)["joint/elbo"]) == 4
    assert [path.name for path in (folder / "runs/m").iterdir()] == ["precious"]


def test_trials_are_runs_of_their_own(table):
    fit(table.parent, "--starts", "2", "--tensorboard", "runs", "--out", "m.pervade")
    run = table.parent / "runs/m"
    assert len(curves(run / "start-1")["pretrain/loss"]) == len(curves(run / "start-2")["pretrain/loss"]) == 3


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("t.csv", "is the same file as DATA"),
        ("file", "must be a folder"),
        ("file/below", "cannot create"),
        ("m.pervade", "--out"),
        *([("/proc/x", "cannot write to `/proc`")] if sys.platform == "linux" else []),
    ],
)
def test_folders_that_cannot_be_used(table, folder, message):
    (table.parent / "file").write_text("notes")
    before = sorted(path.name for path in table.parent.iterdir())
    ran = fit(table.parent, "--tensorboard", folder, "--out", "m.pervade", status=2)
    assert message in ran.stderr, ran.stderr
    assert sorted(path.name for path in table.parent.iterdir()) == before
