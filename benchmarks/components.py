"""The parts of FOSSIL's training step, each timed alone on what the rest of the step would give it.

On a GPU each part is captured and replayed like the whole step, so that the times are those of the device and not of
the processor that launches kernels. Forward and backward of a part are timed together and forward alone; a backward
pass is their difference.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch
from torch import Tensor

from fossil.graph.graph import Graph
from fossil.methods.fossil import Fossil
from fossil.methods.fossil.stages import FossilGraph
from fossil.methods.registry import get_method
from fossil.nn.encoders import Branches
from fossil.ops.precision import Products, arithmetic
from fossil.ops.streams import forked
from fossil.sampling.subgraphs import Subgraphs
from fossil.seeding import torch_generator
from fossil.settings import Settings
from fossil.training.capture import CapturedStep
from fossil.training.trainer import Trainer
from measuring import milliseconds

_WARM_UP = {"cpu": 1, "cuda": CapturedStep.warm_up + 2}


def make_trainer(
    method: str,
    config: Settings,
    graph: Graph,
    device: torch.device,
    precision: Products,
    seed: int,
    *,
    replay: bool = True,
) -> Trainer:
    """Return a trainer of FOSSIL as `fossil.runs.fit` makes it."""
    model = get_method(method).build(config, graph.num_features, seed).to(device)
    return Trainer(model, model.prepare(graph, device), seed, device, precision, replay=replay)


def step_milliseconds(trainer: Trainer, repeats: int) -> float:
    """Return the time of a whole step, warmed up and, where the trainer may, captured."""
    device = trainer.random.device

    def advance(steps: int) -> None:
        trainer.run(trainer.steps + steps, lambda *_: False)

    advance(_WARM_UP[device.type])
    return milliseconds(lambda: advance(1), device, repeats)


class Components:
    """FOSSIL's step in parts.

    Args:
        trainer: of FOSSIL; its weights are moved when the optimiser is timed.
    """

    def __init__(self, trainer: Trainer) -> None:
        method, prepared = trainer.method, trainer.prepared
        assert isinstance(method, Fossil) and isinstance(prepared, FossilGraph)
        self.trainer, self.method, self.prepared = trainer, method, prepared
        self.device = trainer.random.device
        self.random = torch_generator(trainer.seed, "components", device=self.device)
        self.weights = [weight for group in trainer.groups.values() for weight in group.parameters]
        with arithmetic(trainer.precision, self.device):
            self.subgraphs = self._sampled()
            self.branches = self._branches().detached()
            self.arriving = [view.detach() for view in self._views()]
            compared = method.compared(*self.arriving, self.subgraphs)
            # The gradient stops at what the losses look at; that it is spread over all nodes belongs to the encoder.
            self.compared = compared._replace(
                first=compared.first.detach().requires_grad_(), second=compared.second.detach().requires_grad_()
            )

    def times(self, repeats: int, names: Collection[str] | None = None) -> dict[str, float]:
        """Return the milliseconds of each part, or of those named.

        `forward`, `transport` and `node loss` are forward passes, `... with backward` both passes of the part, and
        `losses` the whole contrastive loss.
        """
        parts: dict[str, Callable[[], object]] = {
            "sampling": self._sampled,
            "forward": self._views,
            "forward with backward": self._views_with_backward,
            "transport": self._transport,
            "transport with backward": lambda: self._pulled(self._transport()),
            "losses": self._losses,
            "losses with backward": self._losses_with_backward,
            "gate": self._gate,
            "optimiser": self._optimise,
        }
        if self.method.config.node_contrast != "none":
            parts["node loss"] = self._node_loss
            parts["node loss with backward"] = lambda: self._pulled(self._node_loss())
        return {name: self._timed(part, repeats) for name, part in parts.items() if names is None or name in names}

    def _timed(self, part: Callable[[], object], repeats: int) -> float:
        nothing = torch.zeros((), device=self.device)

        def once() -> dict[str, Tensor | float]:
            with arithmetic(self.trainer.precision, self.device), forked(self.device):
                part()
            return {"nothing": nothing}

        call: Callable[[], object] = CapturedStep(once, self.random) if self.trainer.replay else once
        for _ in range(_WARM_UP[self.device.type]):
            call()
        return milliseconds(call, self.device, repeats)

    def _sampled(self) -> Subgraphs:
        sampler = self.prepared.sampler
        anchors = sampler.draw_anchors(self.method.config.num_anchors, self.random)
        return sampler.sample(anchors, self.random).compact()

    def _branches(self) -> Branches:
        graph = self.prepared.tensors
        branches: Branches = self.method.encoder(graph.features, graph.propagation, self.random)
        return branches

    def _views(self) -> list[Tensor]:
        method, graph, random = self.method, self.prepared.tensors, self.random
        branches = self._branches()
        generated = method.generator(branches, graph, random)
        return [method.fuse(each, graph.centrality, random)[0] for each in (branches, generated)]

    def _views_with_backward(self) -> object:
        return torch.autograd.grad(self._views(), self.weights, self.arriving, allow_unused=True)

    def _transport(self) -> Tensor:
        pairs = self.method.pair(self.subgraphs, self.prepared.sampler, self.random)
        return self.method.subgraph_loss(self.compared, pairs)[0]

    def _node_loss(self) -> Tensor:
        loss = self.method.node_loss(self.compared)
        assert loss is not None
        return loss

    def _pulled(self, loss: Tensor) -> object:
        return torch.autograd.grad(loss, [self.compared.first, self.compared.second], allow_unused=True)

    def _losses(self) -> list[Tensor]:
        """Return the terms of the contrastive loss, after all that a step computes."""
        found = [each.terms for each in self.method.step(self.prepared, self.random) if "encoder" in each.groups]
        return list(found[0].values())

    def _losses_with_backward(self) -> object:
        return torch.autograd.grad(self._losses(), self.weights, allow_unused=True)

    def _gate(self) -> object:
        """Fusion layer on given branches, its own loss, and the gradient of that."""
        fusion = self.method.fusion
        if fusion is None:
            return None
        gate = fusion(self.branches, self.prepared.tensors.centrality, self.random)
        return torch.autograd.grad(self.method.penalty(gate, self.branches).total, list(fusion.parameters()))

    def _optimise(self) -> None:
        for weight in self.weights:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        for optimizer in self.trainer.optimizers.values():
            optimizer.step()
