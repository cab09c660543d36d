"""Hidden cells: how well they are filled in."""

import numpy as np
import pandas as pd
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.linear_model import LogisticRegression

from tables.data import Table, categories, filled, numeric, read
from tables.work import Pervade, Record, timed

TABLES = ("penguins", "biopsy", "credit_data", "diamonds")
SHARES = (0.1, 0.3, 0.5)
MAX_ROWS = 5000


def hidden(table, share):
    """Which observed cells of the features are hidden; the same ones for all methods. A row keeps at least one."""
    features = table.features
    draws = np.where(features.isna(), -1, np.random.default_rng(17).random(features.shape))
    is_kept = draws == draws.max(axis=1, keepdims=True)
    return pd.DataFrame((0 <= draws) & (draws < share) & ~is_kept, features.index, features.columns)


def numbers_and_indicators(frame, n_left_out):
    """Standardised numbers, then the indicators of each category's levels but the first `n_left_out`; NaN where missing."""
    numbers = frame[numeric(frame)].astype(float)
    parts = [(numbers - numbers.mean()) / numbers.std().replace(0, 1)]
    for column in categories(frame):
        indicators = pd.get_dummies(frame[column].astype(object)).astype(float)
        indicators[frame[column].isna()] = np.nan
        parts.append(indicators.iloc[:, n_left_out:])
    return parts


def imputed(imputer, parts):
    imputer.set_params(keep_empty_features=True)
    return np.split(imputer.fit_transform(np.hstack(parts)), np.cumsum([part.shape[1] for part in parts])[:-1], axis=1)


def in_units(frame, standardised):
    numbers = frame[numeric(frame)].astype(float)
    values = standardised * numbers.std().replace(0, 1).to_numpy() + numbers.mean().to_numpy()
    return pd.DataFrame(values, frame.index, numbers.columns)


def by_neighbours(frame):
    """The mean of five neighbours; the largest of a category's indicators is its level."""
    parts = numbers_and_indicators(frame, 0)
    cells = imputed(KNNImputer(), parts)
    done = in_units(frame, cells[0])
    for column, part, values in zip(categories(frame), parts[1:], cells[1:]):
        done[column] = part.columns.to_numpy()[values.argmax(1)]
    return done


def by_regression(frame):
    """Each column by regression on the others, in rounds; a level by logistic regression on the other columns in the end.

    Indicators of all levels would not do: they are missing together and sum to one, so that the others, which are at their
    means at first, determine each of them, and all stay at their means.
    """
    cells = imputed(IterativeImputer(random_state=0), numbers_and_indicators(frame, 1))
    done = in_units(frame, cells[0])
    for index, column in enumerate(categories(frame), 1):
        others, known = np.hstack(cells[:index] + cells[index + 1 :]), frame[column].notna().to_numpy()
        levels = LogisticRegression(max_iter=1000).fit(others[known], frame[column][known].astype(str))
        done[column] = levels.predict(others)
    return done


def by_pervade(pervade, table, holes, seed):
    table = Table(table.name, table.frame.mask(holes.reindex(columns=table.frame.columns, fill_value=False)), None)
    table.write(pervade.folder / "holes.csv")
    fit = pervade.fit("holes.csv", "--clusters", "auto", "--seed", seed)
    pervade.run("impute", "model.pervade", "holes.csv", "--out", "filled.csv", "--force")
    # As text: a column of whole numbers is read as such only if no cell is missing.
    before, after = (pd.read_csv(pervade.folder / file, dtype=str) for file in ("holes.csv", "filled.csv"))
    is_changed = before.notna() & (before != after[before.columns])
    return pd.read_csv(pervade.folder / "filled.csv"), fit | {"changed_cells": int(is_changed.to_numpy().sum())}


def errors(table, holes, done):
    """Of each column: for a number the root mean square error over its standard deviation, for a category the share of
    right levels; and the means of both."""
    columns = {}
    for column in holes.columns[holes.any()]:
        truth, guess = table.features.loc[holes[column], column], done.loc[holes[column], column]
        if column in numeric(table.features):
            error = (guess.astype(float) - truth.astype(float)).pow(2).mean() ** 0.5
            columns[column] = error / table.features[column].astype(float).std()
        else:
            columns[column] = (guess.astype(str) == truth.astype(str)).mean()
    mean = lambda names: float(np.mean([columns[name] for name in names if name in columns])) if names else None
    rounded = {column: round(float(value), 4) for column, value in columns.items()}
    return {"error": mean(numeric(table.features)), "accuracy": mean(categories(table.features)), "columns": rounded}


PEERS = {"median": filled, "IterativeImputer": by_regression, "KNNImputer": by_neighbours}


def run(options):
    pervade = Pervade(options)
    for name in options.only or TABLES:
        frame = read(options.data, name)
        frame = frame.sample(min(len(frame), MAX_ROWS), random_state=0).reset_index(drop=True)
        table = Table(name, frame, None)
        record = Record(options, name, table.about(), pervade)
        for share in SHARES:
            holes = hidden(table, share)
            for method, fill in PEERS.items():
                if record.wants(method):
                    done, seconds = timed(lambda: fill(table.features.mask(holes)))
                    record.add(method, share=share, seconds=seconds, **errors(table, holes, done))
            for seed in range(options.seeds or 1):

                def work():
                    done, fit = by_pervade(pervade, table, holes, seed)
                    return fit | errors(table, holes, done)

                record.try_pervade("pervade", work, share=share, seed=seed)
