"""Tables with known groups: pervade's defaults and its peers."""

import numpy as np
import pandas as pd
from kmodes.kprototypes import KPrototypes
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.mixture import GaussianMixture

from tables.data import GROUPS, SCIKIT, categories, encoded, filled, load, numeric, standardised
from tables.work import Pervade, Record, agreement, timed

# All columns have the same unit: the peers also run without a scale for each column.
ONE_UNIT = ("digits", "tissue_gene_expression")


def k_prototypes(table, k, seed):
    """Numbers standardised, levels as they are; a table without categories is one for k-means."""
    frame = filled(table.features)
    levels = [pd.factorize(frame[column])[0] for column in categories(frame)]
    cells = np.hstack([standardised(frame[numeric(frame)]), np.transpose(levels)])
    which = list(range(len(numeric(frame)), cells.shape[1]))
    return KPrototypes(k, n_init=10, random_state=seed).fit_predict(cells, categorical=which)


def on_numbers(x, k):
    return {
        "k-means": lambda seed: KMeans(k, n_init=10, random_state=seed).fit_predict(x),
        "full mixture": lambda seed: GaussianMixture(k, n_init=10, random_state=seed).fit_predict(x),
        "Ward": lambda _: AgglomerativeClustering(k).fit_predict(x),
    }


def peers(table):
    """The methods by name: the clusters of a seed."""
    k = table.n_groups
    methods = on_numbers(encoded(table.features), k)
    if categories(table.features):
        methods["k-prototypes"] = lambda seed: k_prototypes(table, k, seed)
    if table.name in ONE_UNIT:
        x = table.features.to_numpy(float)
        methods |= {f"{name}, one scale": run for name, run in on_numbers((x - x.mean(0)) / x.std(), k).items()}
    return methods


def run(options):
    pervade = Pervade(options)
    for name in options.only or [*GROUPS, *SCIKIT]:
        table = load(options.data, name)
        record = Record(options, name, table.about(), pervade)
        for method, cluster in peers(table).items():
            # Ward's tree has no random numbers.
            for seed in range(options.seeds or 10) if not method.startswith("Ward") else [0]:
                if record.wants(method):
                    clusters, seconds = timed(lambda: cluster(seed))
                    record.add(method, seed=seed, seconds=seconds, **agreement(table.labels, clusters))
        table.write(pervade.folder / f"{name}.csv")
        for seed in range(options.seeds or 10):
            flags = ["--labels", "column:label", "--clusters", table.n_groups, "--seed", seed]
            record.try_pervade("pervade", lambda: pervade.fit(f"{name}.csv", *flags), seed=seed)
