"""The training loop, for any method."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from fossil.errors import FossilWarning, RunError
from fossil.methods.base import Method, Objective, ParameterGroup
from fossil.seeding import derive
from fossil.settings import Settings, setting
from fossil.training.runtime import Precision, Record, Replay, arithmetic, is_out_of_memory

Objectives = Callable[[Any, torch.Generator], Iterator[Objective]]


class TrainingSettings(Settings):
    """How long and on what to train."""

    epochs: int | None = setting(
        None, "training steps, one per epoch; by default those of the graph's recipe, or of the method", ge=1
    )
    device: str = setting("auto", "auto, cpu, cuda or cuda:0")
    precision: Precision = setting(
        "float32",
        "products outside the transport solver: full float32, tf32 on a GPU (faster, 3 digits), or bfloat16 (2 digits)",
    )
    replay: bool = setting(True, "on a GPU, record the training step once and replay it, where the method allows it")
    checkpoint_seconds: float = setting(15.0, "least time between two checkpoints", ge=0)


class Trainer:
    """Optimises a method on one prepared graph.

    Every step draws from a generator seeded by its own name, so the state below is all that a continued run needs.

    Args:
        method: the method, already on its device.
        prepared: what `method.prepare` returned.
        seed: seed of the run.
        device: where both live.
        precision: precision of products.
        replay: whether a step may be recorded and replayed; only on a GPU, and only if the method allows it.
    """

    def __init__(
        self,
        method: Method[Any],
        prepared: Any,
        seed: int,
        device: torch.device,
        precision: Precision = "float32",
        *,
        replay: bool = True,
    ) -> None:
        self.method, self.prepared, self.seed, self.precision = method, prepared, seed, precision
        self.random = torch.Generator(device=device)
        self.groups = method.parameter_groups()
        self.optimizers = {name: _optimizer(group, device) for name, group in self.groups.items()}
        self.epoch, self._moved = 0, False
        self.replay = replay and device.type == "cuda" and method.capturable
        self._update = self._make_update(self.method.objectives)

    def run(self, epochs: int, after_epoch: Callable[[int, Record], bool]) -> None:
        """Train up to `epochs` in all; `after_epoch(epoch, record)` may stop it by returning True."""
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
                # In place, because a recorded step reads the rate where it was.
                rate = self.optimizers[name].param_groups[0]["lr"]
                rate.fill_(group.learning_rate * group.schedule(self.epoch, epochs))

    def step(self) -> Record:
        """Take one training step and return its record."""
        self.random.manual_seed(derive(self.seed, "step", self.epoch))
        self.method.train()
        self._moved = False
        try:
            return self._update()
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            self._make_room(error)
        return self.step()

    def close(self) -> None:
        """Minimise what the method has left to do after the last epoch; save the state before, to train on later."""
        self.random.manual_seed(derive(self.seed, "closing"))
        self.method.train()
        close, steps = self._make_update(self.method.closing), self.method.closing_steps(self.epoch)
        # A recorded epoch keeps its memory for itself, and is over.
        self._update = self._make_update(self.method.objectives)
        for _ in range(steps):
            close()

    def _make_room(self, error: RuntimeError) -> None:
        """Let the method work in smaller pieces after it ran out of memory, so that the step can be tried again.

        Raises:
            RunError: it cannot, or the step has already moved some weights and would do so twice.
        """
        for optimizer in self.optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        device = self.random.device
        if self._moved or not self.method.spare_memory():
            raise RunError(
                f"{self.method.title} ran out of memory on {device.type} in epoch {self.epoch + 1}.",
                remedy="Use a method or settings that take less (fossil_v2, a smaller hidden and width, "
                "--precision bfloat16), or another device; the last checkpoint is kept.",
            ) from error
        warnings.warn(
            f"Out of memory in epoch {self.epoch + 1}: going on in smaller pieces.", FossilWarning, stacklevel=4
        )
        self._update = self._make_update(self.method.objectives)
        if device.type == "cuda":
            torch.cuda.empty_cache()

    def _make_update(self, objectives: Objectives) -> Callable[[], Record]:
        # Through a weak reference, so that a trainer and all it holds on a GPU go as soon as nobody needs them.
        here: Trainer = weakref.proxy(self)

        def update() -> Record:
            return here._minimise(objectives)

        return Replay(update, self.random) if self.replay else update

    def _minimise(self, objectives: Objectives) -> Record:
        """Take a step on each objective in turn."""
        records: list[Record] = []
        with arithmetic(self.precision, self.random.device):
            for objective in objectives(self.prepared, self.random):
                for optimizer in self.optimizers.values():
                    optimizer.zero_grad(set_to_none=True)
                torch.autograd.backward(objective.terms or objective.loss)
                for group in objective.groups:
                    self._moved = True
                    self.optimizers[group].step()
                records.append(objective.record)
        # Only now: a method may have added to a record after the step.
        return {key: _constant(value) for record in records for key, value in record.items()}

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
        # A recording would go on with the tensors that were there before.
        self._update = self._make_update(self.method.objectives)


def _optimizer(group: ParameterGroup, device: torch.device) -> torch.optim.Optimizer:
    kind = torch.optim.AdamW if group.decoupled_decay else torch.optim.Adam
    rate = group.learning_rate if group.schedule is None else torch.tensor(group.learning_rate, device=device)
    recordable = device.type == "cuda"
    return kind(group.parameters, lr=rate, weight_decay=group.weight_decay, fused=True, capturable=recordable)


def _constant(value: Tensor | float) -> Tensor | float:
    return value.detach() if isinstance(value, Tensor) else value
