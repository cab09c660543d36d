"""A notebook with a kernel of its own: progress, the card and the page."""

import nbformat
import pytest
from nbclient import NotebookClient

CELLS = [
    """
import warnings
from pervade import FitWarning, VaDE
warnings.simplefilter("ignore", FitWarning)
from pervade.datasets import load_digits
X = load_digits().data[:400]
vade = VaDE(n_clusters=4, hidden=(32,), latents=4, pretrain_epochs=2, epochs=2, random_state=0, device="cpu", verbose=1)
vade.fit(X)
""",
    "vade.report(X, title='digits')",
    "vade.describe(X, limit=2)",
]
WITHOUT = "import sys\nsys.modules[{!r}] = None\n"


def executed(*cells):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return [cell.outputs for cell in notebook.cells]


def of_kind(outputs, kind):
    return [output["data"][kind] for output in outputs if kind in output.get("data", {})]


def test_fit_card_report_and_frame():
    fit, report, frame = executed(*CELLS)
    (card,) = of_kind(fit, "text/html")[-1:]
    assert "pervade-card" in card and "<svg" in card and "sk-top-container" in card
    bars = of_kind(fit, "application/vnd.jupyter.widget-view+json")
    assert len(bars) >= 3 and not [output for output in fit if output.get("name") == "stderr"]
    (page,) = of_kind(report, "text/html")
    assert page.startswith("<iframe") and "srcdoc" in page and "digits" in page
    assert "<table" in of_kind(frame, "text/html")[0]


@pytest.mark.parametrize("missing", ["ipywidgets", "tqdm"])
def test_progress_without_widgets(missing):
    fit, _, _ = executed(WITHOUT.format(missing) + CELLS[0], *CELLS[1:])
    written = "".join(output["text"] for output in fit if output.get("name") == "stderr")
    assert "joint training" in written and "\r" in written and "Warning" not in written
    # Each stage rewrites its line.
    assert written.count("\n") <= 8
