"""Running the command, timing, scores, and records."""

import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix

PACKAGES = ("numpy", "scipy", "scikit-learn", "kmodes")


def accuracy(labels, clusters):
    """The share of rows that agree under the best one-to-one matching of clusters to labels."""
    counts = contingency_matrix(labels, clusters)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    return counts[rows, columns].sum() / counts.sum()


def agreement(labels, clusters):
    return {"ari": adjusted_rand_score(labels, clusters), "accuracy": accuracy(labels, clusters)}


def timed(work):
    """What `work` returns, and its seconds."""
    started = time.monotonic()
    done = work()
    return done, time.monotonic() - started


class Failed(Exception):
    """The command ended with an error, whose first line this is."""


class Pervade:
    """The command, in a folder of its own."""

    def __init__(self, options):
        self.binary = options.pervade.absolute()
        self.temporary = tempfile.TemporaryDirectory(prefix="bench-tables-")
        self.folder = pathlib.Path(self.temporary.name)

    def run(self, *arguments):
        arguments = [str(argument) for argument in arguments]
        print("$ pervade", shlex.join(arguments), file=sys.stderr, flush=True)
        ran = subprocess.run([self.binary, *arguments], cwd=self.folder, capture_output=True, text=True)
        if ran.returncode != 0:
            errors = [line for line in ran.stderr.splitlines() if line.startswith("error:")]
            raise Failed((errors or [f"exit status {ran.returncode}"])[0])
        return ran

    def fit(self, *arguments):
        """The numbers of the result, its remarks, and the command; the model is model.pervade."""
        arguments = ["fit", *arguments, "--out", "model.pervade", "--force", "--checkpoint", "none"]
        ran = self.run(*arguments, "--json", "--record", "record.json")
        record = json.loads((self.folder / "record.json").read_text())
        kept = {key: value for key, value in record["result"].items() if not isinstance(value, (list, dict))}
        remarks = [line for line in ran.stderr.splitlines() if line.startswith("Note:")]
        return {
            **kept, "model": None, "stages": record["result"]["seconds"], "seconds": record["result"]["seconds"]["total"],
            "remarks": remarks, "command": shlex.join(["pervade", *map(str, arguments)]),
        }

    def scores(self, data, column):
        """The column `log_density` or `anomaly` of each row."""
        self.run("score", "model.pervade", data, "--out", "scores.csv", "--force")
        return np.genfromtxt(self.folder / "scores.csv", delimiter=",", names=True)[column]

    def version(self):
        return subprocess.run([self.binary, "--version"], capture_output=True, text=True).stdout.strip()


class Record:
    """The results on one table: MODE/NAME.json. Results of methods that run again are replaced."""

    def __init__(self, options, name, about, pervade):
        self.options, self.pervade = options, pervade
        self.path = options.records / options.mode / f"{name}.json"
        self.content = {"mode": options.mode, "data": name, "results": []}
        if self.path.exists():
            self.content |= json.loads(self.path.read_text())
        self.content |= about
        self.replaced = set()

    def wants(self, method):
        """Whether the method is to run: pervade's own start with its name."""
        wanted = self.options.methods
        return wanted == "all" or (wanted == "pervade") == method.startswith("pervade")

    def add(self, method, **values):
        """Stores one result and writes the record."""
        if method not in self.replaced:
            self.replaced.add(method)
            self.content["results"] = [r for r in self.content["results"] if r["method"] != method]
        self.content["results"].append({"method": method} | {k: plain(v) for k, v in values.items() if v is not None})
        software = self.content.setdefault("software", {})
        if method.startswith("pervade"):
            software["pervade"] = self.pervade.version()
        else:
            software |= {name: version(name) for name in PACKAGES}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.content, indent=1) + "\n")
        shown = {k: v for k, v in self.content["results"][-1].items() if k not in ("command", "stages", "columns")}
        print(self.content["data"], shown, file=sys.stderr, flush=True)

    def try_pervade(self, method, work, **values):
        """Runs pervade; an error is stored in the record."""
        if not self.wants(method):
            return
        try:
            self.add(method, **values, **work())
        except Failed as problem:
            self.add(method, **values, problem=str(problem))


def plain(value):
    """A number of numpy as one of Python, rounded to what is worth keeping."""
    value = value.item() if isinstance(value, np.generic) else value
    return round(value, 6) if isinstance(value, float) else value
