"""Runs the code of the documentation: the blocks of all pages of the site, among them the examples of every command.

The blocks of a page run one after the other in one folder, with small files of the names that the page uses, and with short
training. A block that cannot run has a comment before it, `<!-- not run: REASON -->`; commands that never can are in `NOT_RUN`. Of
both, the syntax and the flags of `pervade` are checked. Examples in docstrings are doctests.
"""

import ast
import functools
import gzip
import json
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils import Bunch

import pervade.datasets
from pervade import VaDE

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts/site"))

import check  # noqa: E402
import pages  # noqa: E402
import reference  # noqa: E402

BUILT = ROOT / "target/release/pervade"
PERVADE = [str(BUILT)] if BUILT.exists() else [sys.executable, "-m", "pervade"]
# Commands that are not run, and why.
NOT_RUN = {
    r"^(cargo|pip) ": "compiles or installs",
    r"^(mpiexec|srun|sbatch|parallel) ": "needs a cluster or MPI, for which there is scripts/ranks-test",
    r"^tensorboard ": "a server of another program",
    r"^pervade (?!fit).*--device cuda": "needs a CUDA device",
    r"^pervade reproduce (?!.*--dry-run)": "needs the data of the paper",
    r"^pervade demo": "takes a minute",
    r"^pervade (bench|doctor)": "measures for seconds",
}
# Flags of short training; a command that gives one of them keeps its own. A fit on a CUDA device runs on the CPU.
SHORT = {
    "fit": {"--epochs": "1", "--pretrain-epochs": "2", "--hidden": "16,16", "--mixture-starts": "2"},
    "compare": {"--epochs": "1", "--pretrain-epochs": "1", "--hidden": "16", "--methods": "vade,k-means,gmm"},
    "explore": {"--no-open": None},
}


@functools.cache
def definitions():
    found = subprocess.run([*PERVADE, "reference"], check=True, capture_output=True, text=True)
    return json.loads(found.stdout)


def pages_of_the_site():
    """The text of every page by the file that it comes from, also of pages that are made from the code."""
    files = [pages.FIRST, *(name for names in pages.sources().values() for name in names)]
    texts = {name: (ROOT / name).read_text() for name in files}
    texts |= {f"pervade {c['name']}": reference.command_page(c) for c in definitions()["commands"]}
    return texts


def blocks(text):
    """The fenced blocks of a page: line, language, code, and why it is not run or None."""
    fence = r"(?:^<!-- not run: ([^>]+) -->\n)?^[ ]*```(\w*)\n(.*?)^[ ]*```$"
    for found in re.finditer(fence, text, re.MULTILINE | re.DOTALL):
        reason, language, code = found.groups()
        yield text.count("\n", 0, found.start(2)) + 1, language, code, reason


def commands(code):
    """The commands of a block of a terminal: what follows the prompt."""
    return re.findall(r"^\$ ((?:[^\n]*\\\n)*[^\n]*)", code, re.MULTILINE)


def reason_against(command):
    return next((reason for pattern, reason in NOT_RUN.items() if re.search(pattern, command)), None)


def check_flags(command):
    """Every flag of `pervade` in a command that is not run exists."""
    known = {c["name"]: c for c in definitions()["commands"]}
    for name, rest in re.findall(r"(?:pervade|--release --) ([a-z]+)\b([^#'\n]*)", command):
        listed = [known[name], *known[name]["commands"]]
        names = {a["long"] for c in listed for a in c["arguments"]} | {a["long"] for a in definitions()["everywhere"]}
        assert set(re.findall(r"--([a-z][a-z-]+)", rest)) <= names, command


class Page:
    """A folder in which the blocks of a page run, and the names that they define in Python."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.scope, self.names = folder, {"__name__": "__main__"}, []
        programs = folder / "programs"
        programs.mkdir()
        program = programs / "pervade"
        program.write_text(f"#!{sys.executable} -SE\n{PROGRAM.format(pervade=PERVADE, short=SHORT)}")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("HOME", str(folder))
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        monkeypatch.setenv("MPLBACKEND", "Agg")
        # These need a server; their calls are taken, what they are given comes from pervade.
        for module in ("mlflow", "wandb"):
            monkeypatch.setitem(sys.modules, module, mock.MagicMock())

    def console(self, code):
        for command in commands(code):
            if reason_against(command):
                check_flags(command)
            else:
                self.bash(command)

    def bash(self, code):
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", code], capture_output=True, text=True, timeout=60)
        # With so little training, a check of the accuracy fails, which is what it is for.
        expected = {0, 1} if "--at-least" in code else {0}
        assert done.returncode in expected, f"{code}\n{done.stdout}{done.stderr}"

    def python(self, code):
        exec(compile(code, "<block>", "exec"), self.scope)

    def toml(self, code):
        """A file, whose name is in its first line; a later block has to use it."""
        name = re.match(r"# (\S+\.toml)", code).group(1)
        Path(name).write_text(code)
        self.names.append(name)

    def json(self, code):
        json.loads(code)

    def rust(self, code):
        """The blocks of this README are tests of the crate."""
        assert code in (ROOT / "crates/pervade/README.md").read_text()


# The command with short training. The server of `explore` is ended by Ctrl-C once it has printed its address.
PROGRAM = """import os, signal, subprocess, sys
pervade, short = {pervade!r}, {short!r}
args = sys.argv[1:]
for flag, value in short.get(args[0], {{}}).items():
    if flag not in args:
        args += [flag] if value is None else [flag, value]
if args[0] == "fit" and "--device" in args:
    args[args.index("--device") + 1] = "cpu"
if args[0] != "explore":
    os.execv(pervade[0], pervade + args)
server = subprocess.Popen(pervade + args, stdout=subprocess.PIPE)
assert server.stdout.readline().startswith(b"http://127.0.0.1:")
server.send_signal(signal.SIGINT)
sys.exit(server.wait() not in (0, 130))
"""


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory):
    """A folder with small files of the names that pages use."""
    folder = tmp_path_factory.mktemp("stand-ins")
    penguins = folder / "testdata/readers/penguins.csv"
    digits = folder / "crates/pervade-cli/assets/digits.csv.gz"
    for path in (penguins, digits):
        path.parent.mkdir(parents=True)
    shutil.copy(ROOT / "testdata/readers/penguins.csv", penguins)
    with gzip.open(ROOT / "crates/pervade-cli/assets/digits.csv.gz", "rt") as file:
        lines = file.readlines()[:300]
    digits.write_bytes(gzip.compress("".join(lines).encode()))
    shutil.copy(penguins, folder)
    shutil.copy(digits, folder)
    rows = np.array([line.split(",") for line in lines], float)
    (folder / ".local/share/bash-completion/completions").mkdir(parents=True)
    write_arrays(folder, rows[:, :-1].astype(np.uint8), rows[:, -1].astype(np.uint8))
    write_tables(folder)
    write_texts(folder)
    write_cells(folder)
    write_models(folder)
    return folder


def write_arrays(folder, pixels, labels):
    """Arrays, pictures, and the four files of MNIST."""
    np.save(folder / "digits.npy", pixels.reshape(-1, 8, 8))
    for name in ("flat", "normal", "new", "rows", "table", "large"):
        np.save(folder / f"{name}.npy", pixels)
    np.save(folder / "labels.npy", labels)
    np.savetxt(folder / "new.csv", pixels, "%d", ",")
    sparse.save_npz(folder / "features.npz", sparse.csr_matrix(pixels.astype(np.float32)))
    for label in range(3):
        (folder / f"pictures/{label}").mkdir(parents=True)
        for index, image in enumerate(pixels[labels == label][:15].reshape(-1, 8, 8)):
            header = b"P5 8 8 255\n"
            (folder / f"pictures/{label}/{index}.pgm").write_bytes(header + (image * 15).tobytes())
    (folder / "mnist").mkdir()
    for part, some in (("train", slice(0, 200)), ("t10k", slice(200, 300))):
        images = np.kron(pixels[some].reshape(-1, 8, 8), np.ones((3, 3), np.uint8))
        images = np.pad(images * 15, ((0, 0), (2, 2), (2, 2)))
        header = struct.pack(">4i", 2051, len(images), 28, 28)
        (folder / f"mnist/{part}-images-idx3-ubyte").write_bytes(header + images.tobytes())
        header = struct.pack(">2i", 2049, len(images))
        (folder / f"mnist/{part}-labels-idx1-ubyte").write_bytes(header + labels[some].tobytes())


def write_tables(folder):
    """Tables with names: of one file, and in parts."""
    import pandas as pd

    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, 200)
    patients = pd.DataFrame(
        {
            "height": 3 * kinds + rng.normal(size=200),
            "weight": rng.normal(size=200) - 4 * kinds,
            "visits": rng.poisson(1 + kinds),
            "stage": np.array(["early", "middle", "late"])[kinds],
            "ward": [f"ward {i}" for i in range(200)],
        }
    )
    patients.loc[::9, "weight"] = np.nan
    patients.to_csv(folder / "patients.csv", index=False)
    table = pd.DataFrame(rng.normal(size=(400, 4)), columns=list("abcd")) + 3 * rng.integers(0, 3, (400, 1))
    table.loc[::9, "d"] = np.nan
    for name in ("table", "new_rows"):
        table.to_csv(folder / f"{name}.csv", index=False)
    for name in ("new-rows", "rows"):
        table.to_parquet(folder / f"{name}.parquet")
    (folder / "rows").mkdir()
    for part in range(4):
        table[part::4].to_parquet(folder / f"rows/part-{part}.parquet")


def write_texts(folder):
    rng = np.random.default_rng(0)
    topics = ["matrix vector eigenvalue norm rank", "goal match player team league", "oven flour butter sugar dough"]
    (folder / "texts").mkdir()
    for index in range(60):
        words = rng.choice((topics[index % 3] + " table chair window").split(), 30)
        (folder / f"texts/{index:02}.txt").write_text(" ".join(words))


def write_cells(folder):
    import anndata

    counts = np.random.default_rng(0).poisson(2, (100, 30)).astype(np.float32)
    cells = anndata.AnnData(sparse.csr_matrix(counts))
    cells.write_h5ad(folder / "cells.h5ad")
    other = anndata.AnnData(sparse.csr_matrix(counts[:50]), layers={"log": np.log1p(counts[:50])})
    # The block before it reads the cells that the page makes.
    other.write_h5ad(folder / "other.h5ad")


def write_models(folder):
    """Models of the names that pages use without a fit."""
    fits = {
        "digits": "digits.csv.gz --labels column:last --clusters 10",
        "penguins": "penguins.csv --labels column:species --clusters 3",
        "table": "table.csv --clusters 4",
        "rows": "rows/ --clusters 3",
        "mnist": "mnist/ --labels y --clusters 10",
        "pictures": "pictures --clusters 3",
    }
    for name, flags in fits.items():
        more = [word for pair in SHORT["fit"].items() for word in pair]
        command = [*PERVADE, "fit", *flags.split(), *more, "--out", f"{name}.pervade", "--quiet"]
        subprocess.run(command, cwd=folder, check=True)
    for name in ("penguins", "table"):
        about = [*PERVADE, "inspect", f"{name}.pervade", "--json"]
        checksum = json.loads(subprocess.run(about, cwd=folder, check=True, capture_output=True).stdout)["checksum"]
        names = [{"cluster": 0, "name": "first", "merged_into": None}]
        text = json.dumps({"format": 1, "model": checksum, "clusters": names})
        (folder / f"{name}.names.json").write_text(text)


@pytest.fixture
def short_training(monkeypatch):
    """Fits of estimators that take no time, on fewer digits; parameters that a page gives stay."""
    fit = VaDE.fit

    def short(self, X, y=None):
        given = {"epochs": 1, "pretrain_epochs": 2, "mixture_starts": 2}
        unset = {name: value for name, value in given.items() if getattr(self, name) is None}
        return fit(self.set_params(**unset), X, y)

    monkeypatch.setattr(VaDE, "fit", short)
    digits = pervade.datasets.load_digits()
    few = Bunch(data=digits.data[:300], images=digits.images[:300], target=digits.target[:300], DESCR=digits.DESCR)
    monkeypatch.setattr(pervade.datasets, "load_digits", lambda: few)


@pytest.mark.filterwarnings("ignore::pervade.FitWarning")
@pytest.mark.parametrize("name", pages_of_the_site())
def test_the_blocks_of_a_page(name, tmp_path, stand_ins, monkeypatch, short_training):
    found = list(blocks(pages_of_the_site()[name]))
    if not found:
        return
    folder = tmp_path / "page"
    shutil.copytree(stand_ins, folder)
    page = Page(folder, monkeypatch)
    for line, language, code, reason in found:
        at = f"{name}:{line}: "
        assert language in ("text", "console", "bash", "python", "rust", "toml", "json"), f"{at}language `{language}`"
        if language == "text":
            assert not re.search(r"^(\$ |pervade (?!.*\[OPTIONS\]))", code, re.MULTILINE), at + "commands are `console`"
        elif reason:
            check_unrun(language, code)
        else:
            try:
                getattr(page, language)(code)
            except Exception as error:
                error.add_note(at + f"this {language} block")
                raise
    used = "".join(code for _, language, code, _ in found if language in ("console", "bash", "python"))
    assert all(file in used for file in page.names), "a settings file that no command uses"


def check_unrun(language, code):
    """What can be said about a block that does not run."""
    if language == "python":
        ast.parse(code)
    for command in commands(code):
        check_flags(command)


def test_every_block_is_found():
    """A fence that the pattern of blocks does not see would not be tested."""
    for name, text in pages_of_the_site().items():
        assert 2 * len(list(blocks(text))) == len(re.findall(r"^ *```", text, re.MULTILINE)), name


def test_faults_are_found():
    text = "<!-- not run: slow -->\n```console\n$ pervade fit a.csv --clusters 3\nsaid\n$ pervade fit a.csv --colour 3\n```\n"
    ((line, language, code, reason),) = blocks(text)
    assert (line, language, reason) == (2, "console", "slow")
    assert len(commands(code)) == 2
    check_flags(commands(code)[0])
    with pytest.raises(AssertionError):
        check_flags(commands(code)[1])
    with pytest.raises(SyntaxError):
        check_unrun("python", "print(\n")


def test_the_example_of_the_readme(capsys):
    """In full: it is the first thing that people try."""
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(example.splitlines()) == 5
    scope = {}
    exec(example, scope)
    assert set(scope["vade"].labels_) == set(range(10))
    assert "(16, 64)" in capsys.readouterr().out


def test_faults_of_a_site_are_found(tmp_path):
    page = '<h1 id="top">A</h1><a href="b.html#there">b</a><a href="https://example.org/x">x</a>'
    (tmp_path / "a.html").write_text(page)
    (tmp_path / "b.html").write_text('<h1>B</h1><p id="there"></p><a href="a.html#top">a</a><a href="#there">c</a>')
    assert list(check.problems(tmp_path)) == []
    faults = {
        '<a href="c.html">c</a>': "a.html: c.html does not exist",
        '<a href="b.html#here">b</a>': "a.html: b.html#here has no such anchor",
        '<script src="https://example.org/x.js"></script>': "a.html: loads https://example.org/x.js",
        '<a href="http://example.org">x</a>': "a.html: the link http://example.org is malformed",
        '<img src="d.png">': "a.html: d.png does not exist",
        "<h1>Again</h1>": "a.html: 2 headings of the first level",
    }
    for more, fault in faults.items():
        (tmp_path / "a.html").write_text(page + more)
        assert list(check.problems(tmp_path)) == [fault]
