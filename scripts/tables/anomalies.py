"""Anomalies: rows of a class that the fit has not seen, or that are few in the table itself."""

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from tables.data import Table, load
from tables.work import Pervade, Record, timed

# The class that counts as anomalies: the rarest of wine's, malignant samples.
ANOMALIES = {"wine": "group 2", "breast_cancer": "group 0"}
HELD_OUT, CONTAMINATION = 0.2, 0.1


def splits(table, name, seed):
    """By variant: rows to fit, rows to score, and which of these are anomalies."""
    rng = np.random.default_rng(seed)
    is_anomaly = table.labels == ANOMALIES[name]
    inliers, anomalies = (rng.permutation(np.flatnonzero(which)) for which in (~is_anomaly, is_anomaly))
    n_test = round(HELD_OUT * len(inliers))
    unseen = inliers[n_test:], np.concatenate([inliers[:n_test], anomalies])
    mixed = np.concatenate([inliers, anomalies[: round(CONTAMINATION * len(inliers))]])
    variants = {"not in the fit": unseen, "a tenth of the rows": (mixed, mixed)}
    return {variant: (fit, score, is_anomaly[score]) for variant, (fit, score) in variants.items()}


def run(options):
    pervade = Pervade(options)
    for name in options.only or ANOMALIES:
        table = load(options.data, name)
        record = Record(options, name, table.about(), pervade)
        for seed in range(options.seeds or 5):
            for variant, (fit, score, is_anomaly) in splits(table, name, seed).items():
                if record.wants("IsolationForest"):
                    x = table.frame.to_numpy(float)
                    forest, seconds = timed(lambda: IsolationForest(random_state=seed).fit(x[fit]))
                    auc = roc_auc_score(is_anomaly, -forest.score_samples(x[score]))
                    record.add("IsolationForest", variant=variant, seed=seed, auc=auc, seconds=seconds)

                def work():
                    for file, rows in (("fit.csv", fit), ("score.csv", score)):
                        Table(name, table.frame.iloc[rows], None).write(pervade.folder / file)
                    fitted = pervade.fit("fit.csv", "--clusters", "auto", "--seed", seed)
                    return fitted | {"auc": roc_auc_score(is_anomaly, pervade.scores("score.csv", "anomaly"))}

                record.try_pervade("pervade", work, variant=variant, seed=seed)
