"""The training loop, for any method."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from fossil.errors import FossilWarning, RunError
from fossil.methods.base import Method, Objective, ParameterGroup, Phase, Record
from fossil.ops.precision import Products, arithmetic
from fossil.ops.ranks import ALONE, Ranks, divided_among
from fossil.ops.streams import forked
from fossil.seeding import derive
from fossil.settings import Settings, setting
from fossil.training.capabilities import CanShrink, is_out_of_memory, lack_of_memory_as
from fossil.training.capture import CapturedStep
from fossil.training.checkpoint import packed_tensors, unpacked_tensors
from fossil.training.distributed import all_reduce_max, average_gradients, broadcast_bytes, wait_for_first

_MOMENTS = {"step", "exp_avg", "exp_avg_sq"}  # what Adam keeps for each parameter that has had a gradient

Step: TypeAlias = Callable[[Any, torch.Generator], Iterator[Objective]]


class TrainingSettings(Settings):
    """How long and on what to train."""

    epochs: int | None = setting(
        None, "training steps, one per epoch; by default those of the graph's recipe, or of the method", ge=1
    )
    device: str = setting("auto", "auto, cpu, cuda or cuda:0")
    precision: Products = setting(
        "float32",
        "products outside the transport solver: full float32, tf32 on a GPU (faster, 3 digits), or bfloat16 (2 digits)",
    )
    replay: bool = setting(
        True, "on a GPU, capture the training step once as a CUDA graph and replay it, where the method allows it"
    )
    sampled: Literal["auto", "always", "never"] = setting(
        "auto",
        "take steps on the surroundings of the sampled nodes in place of the whole graph; auto does so where the whole "
        "does not fit and the method can",
    )
    fan_out: int = setting(5, "neighbours of a node that a sampled step reads at most; 0 for all", ge=0)
    batch_nodes: int = setting(
        2_000, "nodes whose loss a sampled step takes, where the method's own settings do not say how many", ge=2
    )
    checkpoint_seconds: float = setting(
        15.0, "least seconds between two checkpoints; a step of more than two seconds is always followed by one", ge=0
    )


class Trainer:
    """Optimises a method on one prepared graph.

    Every step draws from a generator seeded by its own name, so the state below is all that a continued run needs.

    Args:
        method: the method, already on its device.
        prepared: what `method.prepare` returned.
        seed: seed of the run.
        device: where both live.
        precision: precision of products.
        replay: whether a step may be captured and replayed; only on a GPU, not if its shapes depend on data, and not
            among several ranks, whose messages no CUDA graph holds.
        ranks: who shares the work; all of them take the same steps.

    Attributes:
        steps: how many steps have been taken.
    """

    def __init__(
        self,
        method: Method[Any],
        prepared: Any,
        seed: int,
        device: torch.device,
        precision: Products = "float32",
        *,
        replay: bool = True,
        ranks: Ranks = ALONE,
    ) -> None:
        self.method, self.prepared, self.seed, self.precision = method, prepared, seed, precision
        self.ranks = ranks
        self.random = torch.Generator(device=device)
        self.groups = method.parameter_groups()
        self.optimizers = {name: _optimizer(group, device) for name, group in self.groups.items()}
        self.steps, self._weights_moved, self._fitted = 0, False, False
        self._alone = ranks.world_size == 1
        can_capture = device.type == "cuda" and method.trained and not method.data_dependent and self._alone
        self.replay = replay and can_capture
        self._take_step = self._captured(self.method.step)

    def run(self, steps: int, after_step: Callable[[int, Record], bool]) -> None:
        """Train up to so many steps in all; `after_step(number, record)` may stop it by returning True."""
        self.fit()
        self._share_state()
        while self.steps < steps:
            self.set_rates(steps)
            record = self.step()
            self.steps += 1
            if after_step(self.steps, record):
                return

    def fit(self) -> None:
        """Let the method work out what is not trained; once, and not where a loaded state has it.

        Raises:
            RunError: it ran out of memory.
        """
        if not self._fitted and self.ranks.leads:  # the others get what it finds
            self.random.manual_seed(derive(self.seed, "fit"))
            explanation = RunError(
                f"{self.method.title} ran out of memory on {self.random.device.type} before the first epoch.",
                remedy="Use a smaller width, a method that takes less, or another device.",
            )
            with lack_of_memory_as(explanation):
                self.method.fit(self.prepared, self.random)
            self._fitted = True

    def _share_state(self) -> None:
        """Give every rank the state of the first, to the last bit."""
        if self._alone:
            return
        wait_for_first(self.ranks)  # it alone fits
        state = packed_tensors(self.state()) if self.ranks.leads else None
        tensors = unpacked_tensors(broadcast_bytes(self.ranks, state))
        steps = all_reduce_max(self.ranks, self.steps)
        if not self.ranks.leads:
            self.load_state(tensors, steps)

    def set_rates(self, steps: int) -> None:
        """Tell the method how much of all steps is over, and give scheduled groups their learning rate."""
        self.method.progress.fill_(self.steps / steps)
        for name, group in self.groups.items():
            if group.schedule is not None:
                # In place, because a captured step reads the rate where it was.
                rate = self.optimizers[name].param_groups[0]["lr"]
                rate.fill_(group.learning_rate * group.schedule(self.steps, steps))

    @property
    def is_between_steps(self) -> bool:
        """Whether the weights are those after the last whole step, even where the next one failed."""
        return not self._weights_moved

    def step(self) -> Record:
        """Take one training step and return its record."""
        self.random.manual_seed(derive(self.seed, "step", self.steps))
        self.method.train()
        self._weights_moved = False
        try:
            record = self._take_step()
            self._weights_moved = False
            return record
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            self._make_room(error)
        return self.step()

    def close(self) -> None:
        """Take the steps that follow the last epoch; save the state before, to train on later."""
        self.method.train()
        # A captured step keeps its memory for itself, and is over.
        self._take_step = self._captured(self.method.step)
        for phase in self.method.closing(self.steps):
            self._run_phase(phase)

    def _run_phase(self, phase: Phase) -> None:
        self.random.manual_seed(derive(self.seed, phase.name))
        take_step = self._captured(phase.step)
        for _ in range(phase.steps):
            take_step()

    def _make_room(self, error: Exception) -> None:
        """Let the method work in smaller pieces after it ran out of memory, so that the step can be tried again.

        Raises:
            RunError: it cannot, or the step has already moved some weights and would do so twice.
        """
        for optimizer in self.optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        method, device = self.method, self.random.device
        # A rank that tried again would have its messages answered by those of a later moment.
        if self._weights_moved or not (self._alone and isinstance(method, CanShrink) and method.shrink()):
            raise RunError(
                f"{self.method.title} ran out of memory on {device.type} in epoch {self.steps + 1}.",
                remedy="Use a method or settings that take less (fossil_v2, a smaller hidden and width, "
                "--precision bfloat16), or another device; the last checkpoint is kept.",
            ) from error
        warnings.warn(
            f"Out of memory in epoch {self.steps + 1}: going on in smaller pieces.", FossilWarning, stacklevel=4
        )
        self._take_step = self._captured(self.method.step)
        if device.type == "cuda":
            torch.cuda.empty_cache()

    def _captured(self, step: Step) -> Callable[[], Record]:
        """Return what takes a step on all objectives that `step` yields, captured where that is possible."""
        # Through a weak reference, so that a trainer and all it holds on a GPU go as soon as nobody needs them.
        trainer: Trainer = weakref.proxy(self)

        def take_step() -> Record:
            return trainer._minimise(step)

        return CapturedStep(take_step, self.random) if self.replay else take_step

    def _minimise(self, step: Step) -> Record:
        """Take a step on each objective in turn, and return terms and diagnostics of all of them."""
        record: dict[str, Tensor | float] = {}
        objectives: list[Objective] = []  # what diagnostics read must live until the streams have joined
        device = self.random.device
        with arithmetic(self.precision, device), divided_among(self.ranks), forked(device) as streams:
            for objective in step(self.prepared, self.random):
                objectives.append(objective)
                streams.mark()
                for optimizer in self.optimizers.values():
                    optimizer.zero_grad(set_to_none=True)
                torch.autograd.backward(list(objective.terms.values()))
                groups = [self.groups[group].parameters for group in objective.groups]
                average_gradients(self.ranks, chain.from_iterable(groups))
                for group in objective.groups:
                    self._weights_moved = True
                    self.optimizers[group].step()
                record.update({name: term.detach() for name, term in objective.terms.items()})
                with torch.no_grad():
                    record.update(streams.afterwards(objective.diagnose))
        return {key: value.detach() if isinstance(value, Tensor) else value for key, value in record.items()}

    def state(self) -> dict[str, Tensor]:
        """Return weights and optimiser moments as named tensors: the live ones, so copy or write them."""
        tensors = {f"weights/{name}": value for name, value in self.method.state_dict().items()}
        for group, optimizer in self.optimizers.items():
            for index, moments in optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer/{group}/{index}/{name}": value for name, value in moments.items()}
        return tensors

    def load_state(self, tensors: dict[str, Tensor], steps: int) -> None:
        """Continue from what `state` returned after so many steps.

        Raises:
            ValueError: a tensor is missing, unknown, or of another shape; nothing was loaded of the optimisers.
        """
        weights = {key.removeprefix("weights/"): value for key, value in tensors.items() if key.startswith("weights/")}
        moments: dict[str, dict[int, dict[str, Tensor]]] = {group: {} for group in self.groups}
        for key, value in tensors.items():
            if not key.startswith("weights/"):
                group, parameter, name = self._parse_moment(key)
                moments[group].setdefault(parameter, {})[name] = value.clone()
        for group, by_parameter in moments.items():
            _check_moments(group, by_parameter, self.groups[group].parameters)
        try:
            self.method.load_state_dict(weights)
        except RuntimeError as error:
            raise ValueError(" ".join(str(error).split())) from error
        for group, optimizer in self.optimizers.items():
            optimizer.load_state_dict({"state": moments[group], "param_groups": optimizer.state_dict()["param_groups"]})
        self.steps, self._fitted = steps, True
        # A captured step would go on with the tensors that were there before.
        self._take_step = self._captured(self.method.step)

    def _parse_moment(self, key: str) -> tuple[str, int, str]:
        """Return group, number of the parameter and name of a moment, of `optimizer/GROUP/NUMBER/NAME`."""
        prefix, *parts = key.split("/")
        if prefix == "optimizer" and len(parts) >= 3:
            *words, parameter, name = parts
            group = "/".join(words)
            if group in self.groups and parameter.isdecimal():
                return group, int(parameter), name
        raise ValueError(f"unknown tensor {key!r}")


def _check_moments(group: str, moments: dict[int, dict[str, Tensor]], parameters: list[nn.Parameter]) -> None:
    """Raise ValueError unless each parameter has all moments, in its own shape, or none."""
    for index, by_name in moments.items():
        if index >= len(parameters) or by_name.keys() != _MOMENTS:
            raise ValueError(f"parameter {index} of {group!r} has the moments {sorted(by_name)}")
        shapes = {"step": ()} | dict.fromkeys(("exp_avg", "exp_avg_sq"), tuple(parameters[index].shape))
        wrong = [name for name, value in by_name.items() if tuple(value.shape) != shapes[name]]
        if wrong:
            raise ValueError(f"{wrong[0]} of parameter {index} of {group!r} has another shape than it")


def _optimizer(group: ParameterGroup, device: torch.device) -> torch.optim.Optimizer:
    kind = torch.optim.AdamW if group.decoupled_decay else torch.optim.Adam
    rate = group.learning_rate if group.schedule is None else torch.tensor(group.learning_rate, device=device)
    capturable = device.type == "cuda"
    return kind(group.parameters, lr=rate, weight_decay=group.weight_decay, fused=True, capturable=capturable)
