import pytest

from fossil.errors import SettingError
from fossil.methods.base import Method
from fossil.methods.fossil import Fossil, FossilV2
from fossil.methods.registry import get_method, methods, recipes


def test_methods_are_found_by_their_names() -> None:
    found = methods()
    assert found["fossil"] is Fossil and found["fossil_v2"] is FossilV2
    assert all(kind.name == name and issubclass(kind, Method) for name, kind in found.items())
    assert Method not in found.values()


def test_an_unknown_method_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SettingError, match="Unknown method 'fosil'") as caught:
        get_method("fosil")
    assert caught.value.remedy == "Did you mean 'fossil'?"


def test_a_method_without_a_recipe_file_has_none() -> None:
    assert recipes("no such method") == {}


# Released settings: alpha (the one in the comment, where the released file has two), step, k, tau, rate, rate of the
# fusion layer, p, p_f, weight of the L2 term.
RELEASED = {
    "fossil": {
        "cora": (0.1, 0.5, 12, 0.8, 5e-4, 1e-2, 0.3, 0.3, 1e6),
        "citeseer": (0.9, 0.5, 11, 1.5, 5e-4, 5e-4, 0.3, 0.3, 1e3),
        "pubmed": (0.5, 1.5, 29, 0.8, 1e-3, 5e-3, 0.2, 0.3, 1e5),
        "coauthor_cs": (1.0, 1, 24, 0.2, 1e-4, 1e-4, 0.1, 0.4, 10),
        "actor": (0.5, 0.05, 18, 1.0, 1e-4, 1e-3, 0.1, 0.1, 100),
        "chameleon": (0.7, 0.5, 20, 0.8, 5e-4, 5e-3, 0.1, 0.3, 1e6),
        "squirrel": (0.7, 2, 28, 0.5, 5e-3, 1e-3, 0.2, 0.3, 100),
    },
    "fossil_v2": {
        "cora": (0.1, 0.5, 10, 1.0, 5e-4, 5e-4, 0.3, 0.3, 1e6),
        "citeseer": (0.8, 0.05, 16, 0.8, 1e-4, 5e-3, 0.1, 0.4, 100),
        "pubmed": (0.6, 0.1, 12, 1.5, 5e-3, 5e-4, 0.3, 0.2, 1e3),
        "coauthor_cs": (0.9, 1, 25, 0.2, 5e-4, 1e-2, 0.4, 0.4, 1e5),
        "actor": (0.9, 0.5, 28, 1.5, 1e-4, 1e-2, 0.3, 0.2, 1e4),
        "chameleon": (0.5, 1, 12, 0.8, 1e-3, 1e-4, 0.1, 0.4, 1e6),
        "squirrel": (0.3, 1.5, 14, 2.0, 1e-2, 1e-3, 0.3, 0.3, 1e3),
        "ogbn_arxiv": (0.2, 2, 19, 0.5, 1e-4, 1e-4, 0.1, 0.3, 1e5),
    },
}
PUBLISHED = {
    "fossil": (80.02, 68.24, 79.76, 94.49, 35.61, 53.03, 37.13),
    "fossil_v2": (78.94, 68.16, 79.09, 95.04, 35.41, 53.14, 34.79, 56.22),
}
NAMES = (
    "alpha",
    "bapg_step",
    "subgraph_size",
    "temperature",
    "learning_rate",
    "fusion_learning_rate",
    "dropout",
    "fusion_dropout",
    "fusion_l2",
)


@pytest.mark.parametrize("method", RELEASED)
def test_recipes_are_the_released_settings_beside_the_published_accuracy(method: str) -> None:
    found = {graph: recipe for graph, recipe in recipes(method).items() if recipe.published is not None}
    assert set(found) == set(RELEASED[method])
    for (graph, values), published in zip(RELEASED[method].items(), PUBLISHED[method], strict=True):
        activation = "relu" if graph == "cora" else "prelu"
        expected = dict(zip(NAMES, values, strict=True)) | {"activation": activation}
        assert found[graph].settings == expected, graph
        assert found[graph].published == published
