"""The loss of the fusion layer, against its formula."""

import numpy as np
import pytest
import torch
from torch import Tensor

from fossil.ops.fusion_penalty import fusion_penalty

NODES, WIDTH = 17, 6


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def branches() -> list[Tensor]:
    return [torch.randn(NODES, WIDTH, generator=random(seed)) for seed in (1, 2)]


@pytest.mark.parametrize(("alpha", "l2", "mean"), [(0.5, 1e6, 1.0), (0.0, 10.0, 2.0), (1.0, 0.0, 0.0), (0.3, 1.0, 5.0)])
def test_penalty_is_the_formula_of_section_4_6_3(alpha: float, l2: float, mean: float) -> None:
    feature, structure = branches()
    fusion = torch.rand(NODES, 1, generator=random(4))
    f, s, weight = (t.double().numpy() for t in (feature, structure, fusion[:, 0]))
    similarity = sum(weight[i] * (f[i] @ s[i]) / (np.linalg.norm(f[i]) * np.linalg.norm(s[i])) for i in range(NODES))
    expected = {
        "fusion_similarity": similarity,
        "fusion_l2": l2 * np.sqrt((weight**2).sum()),
        "fusion_mean": mean * abs(weight.sum() / NODES - (1 - alpha)),
    }
    found = fusion_penalty(fusion, feature, structure, alpha=alpha, l2=l2, mean=mean)
    parts = found.parts()
    assert list(parts) == list(expected)
    assert parts["fusion_similarity"] is found.similarity
    assert parts["fusion_l2"] is found.l2 and parts["fusion_mean"] is found.mean
    for name, value in expected.items():
        assert parts[name].item() == pytest.approx(value, rel=1e-5, abs=1e-5), name
    assert found.total.item() == pytest.approx(sum(expected.values()), rel=1e-5, abs=1e-5)


def test_penalty_is_finite_for_nodes_without_structure_or_features() -> None:
    feature, structure = (each.requires_grad_() for each in branches())
    mask = torch.ones(NODES, 1)
    mask[:3] = 0
    fusion = torch.rand(NODES, 1, generator=random(4)).requires_grad_()
    found = fusion_penalty(fusion, feature * mask, structure * mask.flip(0), alpha=0.5, l2=1.0, mean=1.0)
    found.total.backward()  # type: ignore[no-untyped-call]
    assert torch.isfinite(found.total)
    assert all(each.grad is not None and each.grad.isfinite().all() for each in (feature, structure, fusion))


def test_penalty_passes_finite_differences_in_fusion_and_branches() -> None:
    fusion = torch.rand(NODES, 1, generator=random(4), dtype=torch.float64)
    inputs = [each.double().requires_grad_() for each in (fusion, *branches())]
    assert torch.autograd.gradcheck(lambda *given: tuple(fusion_penalty(*given, alpha=0.2, l2=3.0, mean=5.0)), inputs)
