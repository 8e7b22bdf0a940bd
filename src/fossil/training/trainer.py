"""The training loop, for any method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fossil.methods.base import Method, ParameterGroup
from fossil.seeding import derive
from fossil.settings import Settings, setting
from fossil.training.runtime import Precision, matmul_precision

Record = dict[str, Tensor | float]


class TrainingSettings(Settings):
    """How long and on what to train."""

    epochs: int | None = setting(
        None, "training steps, one per epoch; by default those of the graph's recipe, or of the method", ge=1
    )
    device: str = setting("auto", "auto, cpu, cuda or cuda:0")
    precision: Precision = setting("float32", "float32 products on a GPU: full float32, or tf32 (faster, 3 digits)")
    checkpoint_seconds: float = setting(15.0, "least time between two checkpoints", ge=0)


class Trainer:
    """Optimises a method on one prepared graph.

    Every step draws from a generator seeded by its own name, so the state below is all that a continued run needs.

    Args:
        method: the method, already on its device.
        prepared: what `method.prepare` returned.
        seed: seed of the run.
        device: where both live.
        precision: precision of float32 products on a GPU.
    """

    def __init__(
        self, method: Method[Any], prepared: Any, seed: int, device: torch.device, precision: Precision = "float32"
    ) -> None:
        self.method, self.prepared, self.seed, self.precision = method, prepared, seed, precision
        self.random = torch.Generator(device=device)
        self.groups = method.parameter_groups()
        self.optimizers = {name: _optimizer(group) for name, group in self.groups.items()}
        self.epoch = 0

    def run(self, epochs: int, after_epoch: Callable[[int, Record], bool]) -> None:
        """Train up to `epochs` in all; `after_epoch(epoch, record)` may stop it by returning True."""
        with matmul_precision(self.precision):
            while self.epoch < epochs:
                self.set_rates(epochs)
                record = self.step()
                self.epoch += 1
                if after_epoch(self.epoch, record):
                    return

    def set_rates(self, epochs: int) -> None:
        """Tell the method how much of `epochs` is over, and give scheduled groups their learning rate."""
        self.method.progress.fill_(self.epoch / epochs)
        for name, group in self.groups.items():
            if group.schedule is not None:
                self.optimizers[name].param_groups[0]["lr"] = group.learning_rate * group.schedule(self.epoch, epochs)

    def step(self) -> Record:
        """Take one training step and return its record."""
        self.random.manual_seed(derive(self.seed, "step", self.epoch))
        self.method.train()
        record: Record = {}
        for objective in self.method.objectives(self.prepared, self.random):
            for optimizer in self.optimizers.values():
                optimizer.zero_grad(set_to_none=True)
            objective.loss.backward()  # type: ignore[no-untyped-call]
            for group in objective.groups:
                self.optimizers[group].step()
            record |= {key: _constant(value) for key, value in objective.record.items()}
        return record

    def state(self) -> dict[str, Tensor]:
        """Return weights and optimiser moments as named tensors: the live ones, so copy or write them."""
        tensors = {f"weights/{name}": value for name, value in self.method.state_dict().items()}
        for group, optimizer in self.optimizers.items():
            for index, moments in optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer/{group}/{index}/{name}": value for name, value in moments.items()}
        return tensors

    def load_state(self, tensors: dict[str, Tensor], epoch: int) -> None:
        """Continue from what `state` returned after `epoch` epochs."""
        weights = {key.removeprefix("weights/"): value for key, value in tensors.items() if key.startswith("weights/")}
        self.method.load_state_dict(weights)
        for group, optimizer in self.optimizers.items():
            moments: dict[int, dict[str, Tensor]] = {}
            for key, value in tensors.items():
                if key.startswith(f"optimizer/{group}/"):
                    _, _, index, name = key.split("/")
                    moments.setdefault(int(index), {})[name] = value.clone()
            optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
        self.epoch = epoch


def _optimizer(group: ParameterGroup) -> torch.optim.Optimizer:
    kind = torch.optim.AdamW if group.decoupled_decay else torch.optim.Adam
    return kind(group.parameters, lr=group.learning_rate, weight_decay=group.weight_decay, fused=True)


def _constant(value: Tensor | float) -> Tensor | float:
    return value.detach() if isinstance(value, Tensor) else value
