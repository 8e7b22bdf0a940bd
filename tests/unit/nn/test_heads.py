import torch
from torch import nn

from fossil.nn.heads import ProjectionHead


def test_head_is_two_linear_maps_with_an_elu_between_them() -> None:
    head = ProjectionHead(5, 7, 3)
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    inner = x.double() @ head.first.weight.double().T + head.first.bias.double()
    inner = torch.where(inner > 0, inner, inner.exp() - 1)
    expected = inner @ head.second.weight.double().T + head.second.bias.double()
    torch.testing.assert_close(head(x).double(), expected, rtol=1e-5, atol=1e-6)
    sequence = nn.Sequential(head.first, nn.ELU(), head.second)
    torch.testing.assert_close(head(x), sequence(x))
