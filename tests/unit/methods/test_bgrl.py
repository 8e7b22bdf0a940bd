from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from fossil.errors import SettingError
from fossil.graph.graph import Graph
from fossil.methods.bgrl import BatchNorm, Bgrl, NormalizedEncoder
from fossil.ops.features import FeatureMatrix
from fossil.ops.sparse import SparseMatrix
from fossil.training.trainer import Trainer

CPU = torch.device("cpu")
SMALL = {"hidden": 12, "width": 6, "predictor_hidden": 10}


def make_graph(nodes: int = 30, features: int = 5) -> Graph:
    random = np.random.default_rng(0)
    upper = np.triu(random.random((nodes, nodes)) < 0.2, 1)
    matrix = sp.csr_array((upper | upper.T).astype(np.float32))
    return Graph("g", matrix, random.random((nodes, features), dtype=np.float32), np.arange(nodes))


def make_trainer(graph: Graph | None = None, **changes: Any) -> tuple[Bgrl, Trainer]:
    graph = graph or make_graph()
    method = Bgrl.build(Bgrl.configure(None, SMALL, changes), graph.num_features, 0)
    return method, Trainer(method, method.prepare(graph, CPU), 0, CPU)


def weights(module: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in module.parameters()]


def test_the_loss_is_that_of_a_plain_loop_over_nodes() -> None:
    method, trainer = make_trainer()
    q_1, q_2, y_1, y_2 = torch.randn(4, 30, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    found, _ = method.loss((q_1, q_2), (y_1, y_2), trainer.prepared)
    expected = 2.0
    for q, y in ((q_1, y_2), (q_2, y_1)):
        for i in range(30):
            expected -= (q[i] @ y[i] / (q[i].norm() * y[i].norm())).item() / 30
    assert found.item() == pytest.approx(expected, rel=1e-12)


def test_predictions_that_hit_the_other_views_targets_cost_nothing() -> None:
    method, trainer = make_trainer()
    y_1, y_2 = torch.randn(2, 30, 6, generator=torch.Generator().manual_seed(3))
    assert method.loss((3 * y_2, y_1 / 2), (y_1, y_2), trainer.prepared)[0].item() == pytest.approx(0, abs=1e-6)
    assert method.loss((-y_2, -y_1), (y_1, y_2), trainer.prepared)[0].item() == pytest.approx(4, rel=1e-6)


def test_without_augmentation_the_objective_is_recomputed_by_hand() -> None:
    off = {"edge_drop_1": 0.0, "edge_drop_2": 0.0, "feature_drop_1": 0.0, "feature_drop_2": 0.0}
    graph = make_graph()
    method, trainer = make_trainer(graph, **off)
    objective = next(method.step(trainer.prepared, trainer.random))  # the target has not moved yet

    X = torch.from_numpy(graph.features / graph.features.sum(1, keepdims=True))
    A = torch.from_numpy(graph.adjacency.toarray()) + torch.eye(30)
    S = A / (A.sum(1, keepdim=True) * A.sum(0, keepdim=True)).sqrt()

    def encode(weights: dict[str, Tensor]) -> Tensor:
        H = X
        for layer in ("layers.0", "layers.1"):
            H = S @ H @ weights[f"{layer}.convolution.weight"]
            H = (H - H.mean(0)) / (H.var(0, unbiased=False) + 1e-5).sqrt()
            H = torch.where(H > 0, H, 0.25 * H)
        return H

    online, target = encode(method.encoder.state_dict()), encode(method.target.state_dict())
    first, _, second = method.predictor
    predicted = second(nn.functional.leaky_relu(first(online), 0.25))
    expected = 2 - 2 * nn.functional.cosine_similarity(predicted, target).mean()
    assert objective.terms["loss"].item() == pytest.approx(expected.item(), rel=1e-4)


def test_each_view_is_made_with_its_own_probabilities_and_shown_to_both_encoders() -> None:
    shares = {"feature_drop_1": 0.1, "edge_drop_1": 0.7, "feature_drop_2": 0.5, "edge_drop_2": 0.3}
    graph = make_graph(nodes=60, features=1000)
    method, trainer = make_trainer(graph, **shares)
    seen: dict[nn.Module, list[tuple[FeatureMatrix, SparseMatrix]]] = {method.encoder: [], method.target: []}
    for module in seen:
        module.register_forward_pre_hook(lambda module, view: seen[module].append(view))
    next(method.step(trainer.prepared, trainer.random))
    for views in seen.values():
        for number, (features, propagation) in enumerate(views, 1):
            assert isinstance(features.data, Tensor)
            masked, edges = float((features.data == 0).all(0).float().mean()), graph.adjacency.nnz
            dropped = 1 - (float((propagation.values != 0).sum()) - 60) / edges
            for found, count, share in (
                (masked, 1000, f"feature_drop_{number}"),
                (dropped, edges, f"edge_drop_{number}"),
            ):
                wanted = shares[share]
                assert abs(found - wanted) < 5 * (wanted * (1 - wanted) / count) ** 0.5, share
    for online, target in zip(*seen.values(), strict=True):
        assert online[0] is target[0] and online[1] is target[1]
    assert len(seen[method.encoder]) == 2


def test_the_target_takes_no_gradient_and_is_in_no_group() -> None:
    method, trainer = make_trainer()
    grouped = {id(p) for group in method.parameter_groups().values() for p in group.parameters}
    trainer.step()
    for parameter in method.target.parameters():
        assert parameter.grad is None and not parameter.requires_grad and id(parameter) not in grouped
    assert all(p.grad is not None for p in [*method.encoder.parameters(), *method.predictor.parameters()])


def test_after_each_step_the_target_has_moved_towards_the_stepped_encoder_by_the_momentum_of_that_step() -> None:
    method, trainer = make_trainer(momentum=0.9)
    epochs, slow = 4, weights(method.target)

    def check(epoch: int, record: dict[str, Tensor | float]) -> bool:
        momentum = 1 - 0.1 * (1 + math.cos(math.pi * (epoch - 1) / epochs)) / 2
        assert float(record["momentum"]) == pytest.approx(momentum, rel=1e-6)
        for index, (found, fast) in enumerate(zip(method.target.parameters(), weights(method.encoder), strict=True)):
            slow[index] = momentum * slow[index] + (1 - momentum) * fast
            torch.testing.assert_close(found, slow[index], rtol=1e-5, atol=1e-6)
        return False

    assert not all(map(torch.equal, slow, weights(method.encoder)))
    trainer.run(epochs, check)


def test_the_trainer_applies_warm_up_and_cosine_to_adamw() -> None:
    method, trainer = make_trainer(learning_rate=0.02, weight_decay=0.1, warm_up=0.2)
    assert isinstance(trainer.optimizers["online"], torch.optim.AdamW)
    rates: list[float] = []

    def note(epoch: int, record: dict[str, Tensor | float]) -> bool:
        rates.append(float(trainer.optimizers["online"].param_groups[0]["lr"]))
        return False

    before = weights(method.encoder)
    trainer.run(10, lambda epoch, record: note(epoch, record) or epoch == 1)
    assert all(map(torch.equal, before, weights(method.encoder)))  # a warm-up starts with rate zero
    trainer.run(10, note)
    falling = [0.02 * (1 + math.cos(math.pi * step / 8)) / 2 for step in range(8)]
    assert rates == pytest.approx([0, 0.01, *falling])


def test_the_target_starts_with_weights_of_its_own_or_with_the_encoders() -> None:
    redrawn, _ = make_trainer()
    copied, _ = make_trainer(target_start="copied")
    first = "layers.0.convolution.weight"
    assert not torch.equal(redrawn.target.state_dict()[first], redrawn.encoder.state_dict()[first])
    assert torch.equal(copied.target.state_dict()[first], copied.encoder.state_dict()[first])
    assert copied.target.get_parameter(first).data_ptr() != copied.encoder.get_parameter(first).data_ptr()


def test_batch_statistics_are_those_of_pytorchs_layer_in_both_modes() -> None:
    ours, theirs = BatchNorm(4, 0.3), nn.BatchNorm1d(4, momentum=0.3)
    random = torch.Generator().manual_seed(0)
    for _ in range(3):
        values = 5 + 2 * torch.randn(7, 4, generator=random)
        assert torch.equal(ours(values, learning=True), theirs.train()(values))
        assert torch.equal(ours(values, learning=False), theirs.eval()(values))


def test_batch_normalisation_of_one_row_or_of_equal_rows_is_finite() -> None:
    for rows in (torch.ones(1, 4), torch.ones(5, 4)):
        norm, values = BatchNorm(4, 0.99), rows.requires_grad_()
        norm(values, learning=True).sum().backward()
        assert values.grad is not None and values.grad.isfinite().all()
        assert all(value.isfinite().all() for value in norm.state_dict().values())


def test_running_statistics_are_saved_and_used_for_the_embeddings() -> None:
    method, trainer = make_trainer()
    trainer.run(3, lambda epoch, record: False)
    vectors = method.encode(trainer.prepared).vectors
    saved = copy.deepcopy(method.state_dict())
    assert {"encoder.layers.0.norm.mean", "encoder.layers.1.norm.variance"} <= saved.keys()
    fresh, _ = make_trainer()
    fresh.load_state_dict(saved)
    assert torch.equal(fresh.encode(trainer.prepared).vectors, vectors)
    saved["encoder.layers.1.norm.mean"] += 1
    fresh.load_state_dict(saved)
    assert not torch.allclose(fresh.encode(trainer.prepared).vectors, vectors)


def test_a_continued_run_ends_bit_for_bit_where_an_uninterrupted_one_does() -> None:
    _, whole = make_trainer()
    whole.run(6, lambda epoch, record: False)
    _, begun = make_trainer()
    begun.run(6, lambda epoch, record: epoch == 3)
    _, continued = make_trainer()
    continued.load_state(copy.deepcopy(begun.state()), 3)
    continued.run(6, lambda epoch, record: False)
    found, expected = continued.state(), whole.state()
    assert found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("graph", [make_graph(nodes=1), make_graph(nodes=2)], ids=["one node", "two nodes"])
def test_the_smallest_graphs_train_to_finite_embeddings(graph: Graph) -> None:
    method, trainer = make_trainer(graph)
    trainer.run(3, lambda epoch, record: False)
    assert method.encode(trainer.prepared).vectors.isfinite().all()
    assert all(value.isfinite().all() for value in method.state_dict().values())


@pytest.mark.parametrize("layers", [1, 3])
def test_depth_is_a_setting(layers: int) -> None:
    method, trainer = make_trainer(layers=layers)
    trainer.run(2, lambda epoch, record: False)
    assert isinstance(method.encoder, NormalizedEncoder) and len(method.encoder.layers) == layers
    assert method.encode(trainer.prepared).vectors.shape == (30, 6)


def test_layer_normalisation_makes_a_node_independent_of_those_it_is_not_connected_to() -> None:
    encoders = {norm: NormalizedEncoder([3, 4], norm, 0.99) for norm in ("batch", "layer")}
    identity = SparseMatrix.from_scipy(sp.eye_array(5, format="csr"))
    X = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    other = torch.cat([X[:1], -2 * X[1:]])
    same = {
        norm: torch.allclose(*(encoder(FeatureMatrix(x), identity, learning=True)[0] for x in (X, other)))
        for norm, encoder in encoders.items()
    }
    assert same == {"batch": False, "layer": True}


def test_unit_embeddings_have_length_one_and_the_same_directions() -> None:
    plain, trainer = make_trainer(unit_embeddings=False)
    scaled, _ = make_trainer(unit_embeddings=True)
    vectors, unit = plain.encode(trainer.prepared).vectors, scaled.encode(trainer.prepared).vectors
    torch.testing.assert_close(unit, nn.functional.normalize(vectors))


def test_a_share_of_one_is_refused() -> None:
    with pytest.raises(SettingError, match=r"edge_drop_1=1\.0 is not accepted"):
        Bgrl.configure(None, {"edge_drop_1": 1.0})
