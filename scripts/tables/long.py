"""Long tables of few columns: seconds of each stage."""

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.datasets import make_blobs

from tables.work import Pervade, Record, agreement, timed

COLUMNS, GROUPS = 20, 10
# Standard deviations of the groups, whose centres are uniform between -10 and 10 in each column: far apart, and close.
KINDS = {"blobs": 1.0, "close-blobs": 4.0}


def run(options):
    pervade = Pervade(options)
    sizes = [1000] if options.quick else [10**4, 10**5, 10**6]
    for kind, rows in [(kind, rows) for kind in KINDS for rows in sizes]:
        name = f"{kind}-{rows}"
        if options.only and name not in options.only:
            continue
        x, labels = make_blobs(rows, COLUMNS, centers=GROUPS, cluster_std=KINDS[kind], random_state=3)
        x = x.astype(np.float32)
        record = Record(options, name, {"rows": rows, "columns": COLUMNS, "groups": GROUPS}, pervade)
        for seed in range(options.seeds or 1):
            if record.wants("MiniBatchKMeans"):
                peer = MiniBatchKMeans(GROUPS, n_init=10, random_state=seed)
                clusters, seconds = timed(lambda: peer.fit_predict(x))
                record.add("MiniBatchKMeans", seed=seed, seconds=seconds, **agreement(labels, clusters))
            np.save(pervade.folder / "rows.npy", x)
            np.save(pervade.folder / "labels.npy", labels)
            flags = ["--labels", "labels.npy", "--clusters", GROUPS, "--seed", seed]
            record.try_pervade("pervade", lambda: pervade.fit("rows.npy", *flags), seed=seed)
