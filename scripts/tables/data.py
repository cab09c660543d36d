"""The tables, and how methods that need numbers see them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn import datasets

# The column of known groups; two columns make one group per combination.
GROUPS = {
    "penguins": ["species"], "biopsy": ["class"], "crabs": ["sp", "sex"], "brca": ["y"],
    "tissue_gene_expression": ["y"], "survey": ["y"],
}
SCIKIT = {
    "iris": datasets.load_iris, "wine": datasets.load_wine, "breast_cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
}
# Numbers of rows or of animals, which say nothing about them. `ID` stays in the file that pervade reads.
IDS = {"biopsy": ["ID"]}
DROPPED = {"crabs": ["index"]}


@dataclass
class Table:
    """A table as it is in its file, without the groups."""

    name: str
    frame: pd.DataFrame
    labels: np.ndarray | None

    @property
    def n_groups(self):
        return len(set(self.labels))

    @property
    def features(self):
        """All columns but ids."""
        return self.frame.drop(columns=IDS.get(self.name, []))

    def about(self):
        rows, columns = self.features.shape
        about = {"rows": rows, "columns": columns, "gaps": int(self.features.isna().sum().sum())}
        return about if self.labels is None else about | {"groups": self.n_groups}

    def write(self, path):
        """As CSV, with the groups in the column `label` if they are known."""
        frame = self.frame if self.labels is None else self.frame.assign(label=self.labels)
        frame.to_csv(path, index=False)


def read(folder, name):
    """A file of the folder, whole numbers as such even if cells are missing."""
    path = next(path for path in (folder / f"{name}.csv", folder / f"{name}.csv.gz") if path.exists())
    frame = pd.read_csv(path).drop(columns=DROPPED.get(name, []))
    whole = [c for c in frame.select_dtypes("number") if (frame[c].dropna() % 1 == 0).all()]
    return frame.astype({column: "Int64" for column in whole})


def load(folder, name):
    """The table of that name, with known groups."""
    if name in SCIKIT:
        given = SCIKIT[name](as_frame=True)
        return Table(name, given.data, np.array([f"group {label}" for label in given.target]))
    frame = read(folder, name)
    labels = frame[GROUPS[name]].astype(str).agg(" ".join, axis=1).to_numpy()
    return Table(name, frame.drop(columns=GROUPS[name]), labels)


def numeric(frame):
    return list(frame.select_dtypes("number"))


def categories(frame):
    return [column for column in frame if column not in numeric(frame)]


def filled(frame):
    """Gaps at the median or the most frequent level."""
    numbers = frame[numeric(frame)].astype(float)
    levels = frame[categories(frame)].astype(object)
    modes = {column: levels[column].mode()[0] for column in levels}
    return pd.concat([numbers.fillna(numbers.median()), levels.fillna(modes)], axis=1)[list(frame)]


def standardised(numbers):
    numbers = np.asarray(numbers, dtype=float)
    deviation = numbers.std(0)
    return (numbers - numbers.mean(0)) / np.where(deviation > 0, deviation, 1)


def encoded(frame):
    """Without gaps: standardised numbers, one-hot levels; two levels are one column."""
    frame = filled(frame)
    levels = frame[categories(frame)].astype(object)
    one_hot = [pd.get_dummies(levels[column], drop_first=levels[column].nunique() == 2) for column in levels]
    return np.hstack([standardised(frame[numeric(frame)]), *one_hot]).astype(float)
