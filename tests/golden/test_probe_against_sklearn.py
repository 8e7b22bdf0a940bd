"""scikit-learn fixes what every probe must be: coefficients, probabilities and predictions."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from fossil.evaluation.probes import logistic
from fossil.evaluation.probes.logistic import fit_probe

# Its default solver stops short of four decimals on the harder problems; Newton steps do not.
TIGHT = {"solver": "newton-cg", "tol": 1e-10, "max_iter": 20_000}


def clouds(nodes: int, width: int, classes: int, distance: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), generator.integers(classes, size=nodes - classes)])
    centres = generator.normal(size=(classes, width)) * distance
    return generator.normal(size=(nodes, width)) + centres[labels] + 3.0, labels


def assert_same(rows, labels, train, strengths, **options):
    """Compare every split and strength with scikit-learn, fitted on the same scaled rows."""
    probes = fit_probe(rows, labels, train, strengths, tolerance=1e-11, **options)
    assert probes.converged.all()
    classes_of = probes.predict(rows)
    for split, nodes in enumerate(train):
        scaled = rows / probes.scale[split].item()
        weight = (probes.weight[split] * probes.scale[split]).numpy()
        probabilities, predicted = probes.probabilities(rows, split), classes_of[split]
        for index, strength in enumerate(strengths):
            model = LogisticRegression(C=strength, **TIGHT).fit(scaled[nodes], labels[nodes])
            classes = model.classes_
            ours = weight[index][classes]
            if len(classes) == 2:  # scikit-learn keeps one row, the difference of ours
                ours = ours[1:] - ours[:1]
            assert ours == pytest.approx(model.coef_, abs=1e-4)
            assert probabilities[index][:, classes] == pytest.approx(model.predict_proba(scaled), abs=1e-4)
            assert probabilities[index].sum(axis=1) == pytest.approx(probabilities[index][:, classes].sum(axis=1))
            assert np.array_equal(predicted[index], model.predict(scaled))


def draw(nodes: int, *sizes: int) -> list[np.ndarray]:
    generator = np.random.default_rng(7)
    return [generator.choice(nodes, size, replace=False) for size in sizes]


@pytest.mark.parametrize(
    ("width", "classes", "distance", "strengths"),
    [
        pytest.param(6, 4, 0.5, [0.1, 1.0, 10.0], id="overlapping classes"),
        pytest.param(6, 4, 8.0, [0.1, 1.0, 100.0], id="separable classes"),
        pytest.param(5, 3, 0.7, [1e-5, 1e-3], id="tiny C"),
        pytest.param(5, 3, 0.3, [1e4], id="huge C"),
        pytest.param(90, 3, 0.4, [0.01, 1.0, 64.0], id="more columns than rows"),
        pytest.param(4, 2, 0.5, [0.1, 1.0, 10.0], id="two classes"),
    ],
)
@pytest.mark.parametrize("scale", [True, False])
def test_probe_equals_logistic_regression(width, classes, distance, strengths, scale):
    rows, labels = clouds(200, width, classes, distance)
    assert_same(rows, labels, draw(200, 60, 60), strengths, scale=scale)


@pytest.mark.parametrize("copies", [False, True], ids=["rows of full rank", "copied rows"])
@pytest.mark.parametrize(("sizes", "apart"), [((60, 60), False), ((20, 35, 40, 40, 28), True)])
def test_far_more_columns_than_rows_whether_splits_share_them_or_not(sizes, apart, copies):
    rows, labels = clouds(200, 250, 3, 0.4)
    if copies:
        rows[100:] = rows[:100]
    train = draw(200, *sizes)
    assert logistic._apart(train, 250) is apart
    assert_same(rows, labels, train, [0.01, 1.0, 64.0])


def test_unbalanced_classes_and_differing_sizes():
    rows, labels = clouds(300, 8, 3, 0.8)
    labels = np.where((labels == 2) & (np.arange(300) % 10 > 0), 0, labels)
    assert_same(rows, labels, draw(300, 40, 90, 150), [0.1, 1.0, 50.0])


def test_a_class_without_training_rows_is_left_out_as_there():
    rows, labels = clouds(120, 5, 4, 1.0)
    train = [np.flatnonzero(labels != 1)[:50], np.flatnonzero(labels < 2)[:40], np.arange(60)]
    assert_same(rows, labels, train, [0.5, 5.0])


def test_handwritten_digits():
    rows, labels = load_digits(return_X_y=True)
    assert_same(rows, labels, draw(len(rows), 200, 600), [1 / 64, 1.0, 64.0])


def test_a_fit_at_the_default_tolerance_is_nearer_the_optimum_than_one_of_scikit_learn():
    rows, labels = load_digits(return_X_y=True)
    (nodes,), strengths = draw(len(rows), 600), [4.0**power for power in range(-3, 7)]
    probes = fit_probe(rows, labels, [nodes], strengths)
    scale = probes.scale[0].item()
    weights, biases = (probes.weight[0] * scale).double().numpy(), probes.bias[0].double().numpy()
    scaled, truth = rows[nodes] / scale, labels[nodes]
    for strength, weight, bias in zip(strengths, weights, biases, strict=True):
        default = LogisticRegression(C=strength, max_iter=1000).fit(scaled, truth)
        best = LogisticRegression(C=strength, **TIGHT).fit(scaled, truth)
        ours, theirs, optimum = (
            log_loss(truth, softmax(scaled @ w.T + b, axis=1), normalize=False) + (w**2).sum() / (2 * strength)
            for w, b in ((weight, bias), (default.coef_, default.intercept_), (best.coef_, best.intercept_))
        )
        assert ours - optimum <= max(theirs - optimum, 1e-9 * optimum)
        assert ours == pytest.approx(optimum, rel=1e-3)
