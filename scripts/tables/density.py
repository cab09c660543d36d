"""Held-out log likelihood per row, in nats, of rows that are standardised by the rows of the fit."""

import numpy as np
import pandas as pd
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import KFold

from tables.data import Table, load, numeric
from tables.work import Pervade, Record, timed

TABLES = ("iris", "wine", "penguins", "breast_cancer")
FOLDS = 5
MAX_COMPONENTS = 8


def numbers(options, name):
    """The measurements alone, of rows without gaps."""
    table = load(options.data, name)
    frame = table.frame[[column for column in numeric(table.frame) if column != "year"]].astype(float)
    is_whole = frame.notna().all(axis=1).to_numpy()
    return Table(name, frame[is_whole], table.labels[is_whole])


def mixture(x, seed):
    """As many components as the Bayesian information criterion prefers."""
    fits = [GaussianMixture(k, n_init=5, random_state=seed).fit(x) for k in range(1, MAX_COMPONENTS + 1)]
    return min(fits, key=lambda fit: fit.bic(x))


def run(options):
    pervade = Pervade(options)
    for name in options.only or TABLES:
        table = numbers(options, name)
        record = Record(options, name, table.about(), pervade)
        folds = KFold(FOLDS, shuffle=True, random_state=0).split(table.frame)
        for fold, (fit, held_out) in enumerate(folds):
            x = table.frame.to_numpy()
            x = (x - x[fit].mean(0)) / x[fit].std(0)
            if record.wants("full mixture"):
                best, seconds = timed(lambda: mixture(x[fit], fold))
                values = {"log_likelihood": best.score(x[held_out]), "components": best.n_components}
                record.add("full mixture", fold=fold, seconds=seconds, **values)

            def work():
                for file, rows in (("fit.csv", fit), ("held-out.csv", held_out)):
                    Table(name, pd.DataFrame(x[rows], columns=table.frame.columns), None).write(pervade.folder / file)
                fitted = pervade.fit("fit.csv", "--clusters", table.n_groups, "--seed", fold)
                return fitted | {"log_likelihood": np.mean(pervade.scores("held-out.csv", "log_density"))}

            record.try_pervade("pervade", work, fold=fold)
