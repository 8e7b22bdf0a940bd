import torch
from torch import nn

from fossil.nn.discriminators import BilinearDiscriminator, real_or_fake

NODES, WIDTH = 9, 6


def test_scores_are_those_of_a_bilinear_layer_on_the_expanded_summary() -> None:
    random = torch.Generator().manual_seed(0)
    vectors, summary = torch.randn(NODES, WIDTH, generator=random), torch.randn(WIDTH, generator=random)
    ours, theirs = BilinearDiscriminator(WIDTH), nn.Bilinear(WIDTH, WIDTH, 1)
    with torch.no_grad():
        ours.bias.fill_(0.7)
        theirs.weight.copy_(ours.weight[None])
        theirs.bias.copy_(ours.bias)
    expected = theirs(vectors, summary.expand(NODES, WIDTH)).squeeze(1)
    torch.testing.assert_close(ours(vectors, summary), expected)


def test_weights_start_as_xavier_fills_the_weight_of_a_bilinear_layer() -> None:
    torch.manual_seed(5)
    ours = BilinearDiscriminator(40)
    torch.manual_seed(5)
    expected = nn.init.xavier_uniform_(torch.empty(1, 40, 40))
    assert torch.equal(ours.weight, expected[0]) and ours.bias == 0


def test_loss_is_the_mean_binary_cross_entropy_over_both_sets() -> None:
    random = torch.Generator().manual_seed(1)
    real = torch.randn(NODES, generator=random, requires_grad=True)
    fake = torch.randn(NODES, generator=random, requires_grad=True)
    found = torch.autograd.grad(real_or_fake(real, fake), (real, fake))
    labels = torch.cat([torch.ones(NODES), torch.zeros(NODES)])
    loss = nn.functional.binary_cross_entropy_with_logits(torch.cat([real, fake]), labels)
    torch.testing.assert_close(real_or_fake(real, fake), loss)
    for ours, theirs in zip(found, torch.autograd.grad(loss, (real, fake)), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_loss_is_finite_for_logits_that_a_sigmoid_cannot_tell_from_certainty() -> None:
    assert real_or_fake(torch.full((3,), -500.0), torch.full((3,), 500.0)) == 500
