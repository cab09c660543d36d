"""scikit-learn's own checks: all of them, none skipped, none expected to fail."""

import pytest
from common import SMALL
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator, parametrize_with_checks

from pervade import VaDE

# One check asks for fewer Gaussians than clusters.
pytestmark = pytest.mark.filterwarnings("ignore:n_components is 1")

# The check of sparse rows expects four probabilities per row.
ESTIMATOR = VaDE(n_clusters=4, **SMALL)


def test_every_check_passes_and_none_is_skipped():
    results = check_estimator(ESTIMATOR, on_fail=None, on_skip=None)
    assert len(results) > 40
    assert {r["check_name"]: r["exception"] for r in results if r["status"] != "passed"} == {}
    ran = {r["check_name"] for r in results}
    assert {"check_estimator_sparse_array", "check_estimator_sparse_matrix", "check_array_api_input"} <= ran
    assert {"check_clustering", "check_transformer_general", "check_methods_subset_invariance"} <= ran


@pytest.mark.parametrize("number", range(len(list(estimator_checks_generator(ESTIMATOR)))))
def test_generator(number):
    estimator, check = list(estimator_checks_generator(ESTIMATOR))[number]
    check(estimator)


@parametrize_with_checks([ESTIMATOR, VaDE(n_clusters=4, recipe="paper", n_init=2, **SMALL)])
def test_each_check(estimator, check):
    check(estimator)
