"""Agreement of channels, beside NumPy's correlations in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.preprocessing import normalize

import fossil.nn.agreement
from fossil.graph.channels import CHANNELS, Channel
from fossil.graph.graph import Array
from fossil.nn.agreement import FLOOR, agreement, channel_weights, landmarks_of

NAMES = ("identity", "low", "low2", "out", "in2")


def channels(*names: str) -> tuple[Channel, ...]:
    return tuple(CHANNELS[name] for name in names)


def rows(nodes: int = 30, count: int = len(NAMES), width: int = 7, seed: int = 0) -> Array:
    """Unit vectors that share something, N×C×D."""
    random = np.random.default_rng(seed)
    shared = random.normal(size=(nodes, 1, width))
    mixed = shared + random.normal(size=(nodes, count, width))
    return np.stack([normalize(mixed[:, place]) for place in range(count)], 1)


def by_hand(given: Array, operators: list[str], marks: list[int]) -> Array:
    centred = given - given.mean(0)
    found = np.zeros(given.shape[:2])
    for i in range(len(given)):
        others = [j for j in marks if j != i]
        profiles = [centred[others, c] @ centred[i, c] for c in range(given.shape[1])]
        for a in range(given.shape[1]):
            peers = [b for b in range(given.shape[1]) if operators[b] != operators[a]]
            found[i, a] = np.mean([np.corrcoef(profiles[a], profiles[b])[0, 1] for b in peers])
    return found


@pytest.mark.parametrize("marks", [list(range(30)), [0, 3, 4, 17, 29]])
def test_agreement_is_the_mean_correlation_with_channels_of_other_operators(marks: list[int]) -> None:
    given, chosen = rows(), channels(*NAMES)
    found = agreement(torch.from_numpy(given), chosen, torch.tensor(marks))
    expected = by_hand(given, [channel.operator for channel in chosen], marks)
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_chunks_and_a_choice_of_nodes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    given, chosen, marks = torch.from_numpy(rows()), channels(*NAMES), torch.arange(0, 30, 2)
    whole = agreement(given, chosen, marks)
    monkeypatch.setattr(fossil.nn.agreement, "_CHUNK", {"cpu": 3 * len(chosen) * len(marks)})
    torch.testing.assert_close(agreement(given, chosen, marks), whole)
    some = torch.tensor([4, 1, 28])
    torch.testing.assert_close(agreement(given, chosen, marks, some), whole[some])


def test_a_channel_that_nobody_confirms_has_no_agreement_and_a_copy_has_all() -> None:
    random = np.random.default_rng(1)
    shared, noise = (normalize(random.normal(size=(400, 20))) for _ in range(2))
    given = torch.from_numpy(np.stack([noise, shared, shared], 1))
    found = agreement(given, channels("identity", "low", "out"), torch.arange(400)).mean(0)
    assert found[0].abs() < 0.02
    # Half of the others is a copy, the other half noise.
    np.testing.assert_allclose(found[1:], [0.5, 0.5], atol=0.02)


def test_a_node_without_direction_agrees_with_nobody() -> None:
    given = rows()
    given[3] = np.delete(given, 3, 0).mean(0)  # nothing is left of it once the mean is taken off
    found = agreement(torch.from_numpy(given), channels(*NAMES), torch.arange(30))
    assert torch.isfinite(found).all() and (found[3].abs() < 1e-9).all()


def test_weights_are_powers_of_the_agreement_of_length_one() -> None:
    agreed, chosen = torch.tensor([0.3, 0.6, 0.2]), channels("identity", "out", "in")
    np.testing.assert_allclose(channel_weights(agreed, chosen, 2), normalize([[0.09, 0.36, 0.04]])[0], rtol=1e-5)
    np.testing.assert_allclose(channel_weights(agreed, chosen, 0), np.full(3, 3**-0.5), rtol=1e-5)
    both = channel_weights(torch.stack([agreed, agreed.flip(0)]), chosen, 2)
    np.testing.assert_allclose(both[0], channel_weights(agreed, chosen, 2))
    np.testing.assert_allclose(both.norm(dim=1), [1, 1], rtol=1e-5)


@pytest.mark.parametrize("sharpness", [2, 8, 60])
def test_weights_of_little_agreement_have_length_one_too(sharpness: float) -> None:
    agreed, chosen = torch.tensor([[3e-4, 1e-4], [0.3, 0.1], [0.03, 0.01]]), channels("low", "out")
    expected = normalize([[1, 3.0**-sharpness]]).repeat(3, 0)
    np.testing.assert_allclose(channel_weights(agreed, chosen, sharpness), expected, rtol=1e-4)


def test_where_nothing_is_confirmed_the_features_remain() -> None:
    nothing = torch.tensor([-0.2, -0.1, 0.0])
    np.testing.assert_allclose(channel_weights(nothing, channels("identity", "out", "in"), 2), [1, 0, 0])
    # A little agreement of another channel does not take over from features that nobody contradicts.
    little = channel_weights(torch.tensor([0.01, FLOOR / 2, 0.0]), channels("identity", "out", "in"), 2)
    assert little[0] > 0.9
    # Without the identity there is nothing to fall back on, and all are equal.
    np.testing.assert_allclose(channel_weights(nothing, channels("low", "out", "in"), 2), np.full(3, 3**-0.5))


@pytest.mark.parametrize(("nodes", "count"), [(1, 1), (1024, 1024), (1025, 513), (5000, 1000)])
def test_landmarks_are_evenly_spaced_and_at_most_so_many(nodes: int, count: int) -> None:
    found = landmarks_of(nodes, torch.device("cpu"))
    assert len(found) == count and found[-1] < nodes and len(set(found.diff().tolist())) <= 1
