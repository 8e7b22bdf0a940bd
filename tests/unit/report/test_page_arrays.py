from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from fossil.report.arrays import category_codes, number_steps, packed, packed_texts, places
from fossil.report.cosines import cosines_between


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
def test_bytes_come_plane_after_plane(kind: type) -> None:
    values = np.array([1, 2, np.iinfo(kind).max, 7], kind)
    found = packed(values)
    planes = np.frombuffer(zlib.decompress(base64.b64decode(found["data"])), np.uint8).reshape(-1, len(values))
    whole = sum(plane.astype(np.uint64) << np.uint64(8 * place) for place, plane in enumerate(planes))
    assert whole.tolist() == values.tolist()
    assert (found["dtype"], found["length"]) == (f"u{8 * values.itemsize}", 4)


def test_texts_are_told_apart_by_their_bytes() -> None:
    texts = ["a", "", "é", "👩", "</script>"]
    content, lengths = packed_texts(texts)
    ends = np.cumsum(lengths)
    assert [bytes(content[end - size : end]).decode() for size, end in zip(lengths, ends, strict=True)] == texts


def test_whole_numbers_are_exact_and_others_near() -> None:
    whole = np.array([24.0, 52.0, np.nan, 36.0])
    steps, step = number_steps(whole, 24.0, 52.0)
    assert steps.dtype == np.uint8 and step == 1.0
    assert (steps[[0, 1, 3]] * step + 24.0).tolist() == [24.0, 52.0, 36.0] and steps[2] == 255
    values = np.random.default_rng(0).normal(size=500)
    steps, step = number_steps(values, values.min(), values.max())
    assert np.abs(steps * step + values.min() - values).max() <= step / 2 * 1.001
    assert number_steps(np.zeros(3), 0.0, 0.0)[0].tolist() == [0, 0, 0]


def test_categories_keep_a_value_for_none() -> None:
    assert category_codes(np.array([0, -1, 253]), 254).tolist() == [0, 255, 253]
    assert category_codes(np.array([0, -1, 254]), 255).dtype == np.uint16  # 255 would say none


def test_places_fill_the_square_and_keep_their_shape() -> None:
    x, y = places(np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 5.0]]))
    assert x.tolist() == [0, 65535, 65535]
    assert (int(y[2]) - int(y[0])) / 65535 == pytest.approx(0.5, abs=1e-4)
    assert places(np.zeros((1, 2)))[0].tolist() == [32768]


def test_cosines_of_pairs_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fossil.report.cosines._PAIRS", 2)  # two pairs at a time
    lengths = 10 ** np.random.default_rng(1).uniform(-30, 30, size=(57, 1))  # their squares are beyond float32
    vectors = (np.random.default_rng(0).normal(size=(57, 6)) * lengths).astype(np.float32)
    vectors[3] = 0
    a, b = np.array([0, 3, 9]), np.array([1, 2, 3])
    wanted = cosine_similarity(vectors.astype(np.float64))[a, b]
    np.testing.assert_allclose(cosines_between(vectors, a, b), wanted, atol=1e-6)


@pytest.mark.filterwarnings("error")
def test_numbers_at_the_ends_of_a_double_are_steps_apart() -> None:
    values = np.array([-1.5e308, 0.0, np.nan, 1.5e308])
    steps, step = number_steps(values, -1.5e308, 1.5e308)
    assert steps.tolist() == [0, 32767, 65535, 65534] and np.isfinite(step)
    assert step / 2 * 65534 == pytest.approx(1.5e308)
