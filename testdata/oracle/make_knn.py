"""Writes knn.safetensors: labels by scikit-learn's k-nearest-neighbour classifier, and its error rates.

Needs numpy, scikit-learn, safetensors. Run it in this folder.
"""

import numpy as np
from safetensors.numpy import save_file
from sklearn.neighbors import KNeighborsClassifier

rng = np.random.default_rng(33)
tensors = {}
for case, columns in {"few_columns": 4, "many_columns": 70}.items():
    # Six labels, not numbered without gaps, that overlap: many votes are tied.
    values = np.array([0, 1, 4, 5, 7, 9])
    centres = rng.normal(size=(6, columns)) * 2.5 / np.sqrt(columns)
    known_parts, parts = rng.integers(6, size=503), rng.integers(6, size=131)
    known = (centres[known_parts] + rng.normal(size=(503, columns))).astype(np.float32)
    rows = (centres[parts] + rng.normal(size=(131, columns))).astype(np.float32)
    tensors[f"{case}/known"], tensors[f"{case}/rows"] = known, rows
    tensors[f"{case}/known_labels"] = values[known_parts].astype(np.uint32)
    tensors[f"{case}/labels"] = values[parts].astype(np.uint32)
    for k in [1, 3, 5, 10]:
        classifier = KNeighborsClassifier(n_neighbors=k, algorithm="kd_tree")
        classifier.fit(known.astype(np.float64), values[known_parts])
        found = classifier.predict(rows.astype(np.float64))
        shares = np.sort(classifier.predict_proba(rows.astype(np.float64)), axis=1)
        print(case, k, "tied votes:", (shares[:, -1] == shares[:, -2]).mean())
        tensors[f"{case}/found_{k}"] = found.astype(np.uint32)
        tensors[f"{case}/error_{k}"] = np.array([(found != values[parts]).mean()])
save_file(tensors, "knn.safetensors")
