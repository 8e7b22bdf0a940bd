import hashlib

import numpy as np
import pytest
import torch

from fossil.seeding import derive, numpy_generator, torch_generator


def test_a_stream_is_the_hash_of_its_names_without_the_last_bit() -> None:
    digest = hashlib.sha256(b'[7, "train", 17]').hexdigest()
    assert derive(7, "train", 17) == int(digest[:16], 16) // 2


@pytest.mark.parametrize(
    "other",
    [(1, "init", 3), (0, "step", 3), (0, "init", 4), (0, 3, "init"), (0, "init"), (0, "init", 3, 0), (0, "init, 3")],
)
def test_seed_names_and_their_order_all_matter(other: tuple[int, ...]) -> None:
    assert derive(*other) != derive(0, "init", 3)


def test_derived_seeds_fit_in_63_bits_and_do_not_repeat() -> None:
    seeds = [derive(seed, "step", step) for seed in range(20) for step in range(500)]
    assert len(set(seeds)) == len(seeds)
    assert min(seeds) >= 0 and 2**62 < max(seeds) < 2**63


def test_equal_names_give_equal_draws_and_other_names_other_draws() -> None:
    first, again, other = (numpy_generator(0, name).random(5) for name in ("a", "a", "b"))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    drawn = [torch.rand(5, generator=torch_generator(0, name)) for name in ("a", "a", "b")]
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])


def test_the_ambient_generators_are_left_alone() -> None:
    state = torch.get_rng_state()
    ambient = repr(np.random.get_state())
    torch.rand(3, generator=torch_generator(0, "a"))
    numpy_generator(0, "a").random(3)
    assert torch.equal(torch.get_rng_state(), state)
    assert repr(np.random.get_state()) == ambient
