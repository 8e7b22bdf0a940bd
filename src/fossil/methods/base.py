"""The contract every method implements.

A method is a `torch.nn.Module` built from its own settings. It prepares a graph once, yields objectives step by step
while the trainer optimises them, and encodes graphs. It never sees labels unless it says so, and never touches files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from fossil.errors import SettingError, nearest
from fossil.graph.graph import Graph
from fossil.seeding import derive
from fossil.settings import Settings

Prepared = TypeVar("Prepared")

Schedule: TypeAlias = Callable[[int, int], float]
"""From a step's number, counted from zero, and the number of all steps, to the factor of the learning rate."""


class Objective(NamedTuple):
    """Something to minimise now.

    Attributes:
        loss: scalar to differentiate.
        groups: names of the parameter groups that take a step on it.
        record: what to write into the history: loss parts and diagnostics, as numbers or scalar tensors. Tensors stay
            on their device until the history is flushed, so recording never waits for the device. A method may add to
            it once the step is taken, so that no gradient waits for what is merely written down.
        terms: what the loss is the sum of, where a GPU can work on the gradient of each at the same time.
    """

    loss: Tensor
    groups: tuple[str, ...]
    record: dict[str, Tensor | float]
    terms: tuple[Tensor, ...] = ()


class Encoding(NamedTuple):
    """Embeddings (N×D) and, where the method has such a thing, the weight of structure per node λ (N)."""

    vectors: Tensor
    fusion: Tensor | None = None


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that share an optimiser.

    Attributes:
        parameters: what to optimise.
        learning_rate: of Adam.
        weight_decay: added to the gradient (Adam), or taken off the weights (AdamW).
        decoupled_decay: whether it is AdamW.
        schedule: factor of the learning rate at each step; constant when None.
    """

    parameters: list[nn.Parameter]
    learning_rate: float
    weight_decay: float
    decoupled_decay: bool = False
    schedule: Schedule | None = None


class Method(nn.Module, ABC, Generic[Prepared]):
    """A way to learn node embeddings.

    Class attributes:
        name: name on the command line.
        title: name in tables.
        paper: where it comes from.
        needs_labels: whether training reads labels.
        capturable: whether an epoch always runs the same operations on tensors of the same shapes and never waits for
            the device, so that a GPU can record it once and replay it. Such a method does not call `.item()`, does not
            index with masks, and draws random numbers from the generator it is given alone.
        epochs: training steps when nobody says how many.
        Config: its settings.
        presets: named sets of overrides of the defaults, first the default preset.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    needs_labels: ClassVar[bool] = False
    capturable: ClassVar[bool] = False
    epochs: ClassVar[int] = 300
    Config: ClassVar[type[Settings]]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {}}

    def __init__(self, config: Settings, num_features: int) -> None:
        super().__init__()
        self.num_features = num_features
        # How much of the training is over, from 0 to 1: the trainer moves it on, and schedules in a method read it.
        self.progress: Tensor
        self.register_buffer("progress", torch.zeros(()), persistent=False)

    @classmethod
    def build(cls, config: Settings, num_features: int, seed: int) -> Self:
        """Make the method with initial weights that depend on `seed` alone, leaving PyTorch's own generator alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(seed, "weights"))
            return cls(config, num_features)

    @classmethod
    def configure(cls, preset: str | None, *overrides: Mapping[str, Any]) -> Settings:
        """Return the settings of a preset with overrides applied in order."""
        chosen = preset or next(iter(cls.presets))
        if chosen not in cls.presets:
            raise SettingError(f"{cls.title} has no preset {chosen!r}.", remedy=nearest(chosen, cls.presets))
        values = dict(cls.presets[chosen])
        for override in overrides:
            values.update(override)
        return cls.Config.build(values)

    @abstractmethod
    def parameter_groups(self) -> dict[str, ParameterGroup]:
        """Return the parameters to optimise, by group name."""

    @abstractmethod
    def prepare(self, graph: Graph, device: torch.device) -> Prepared:
        """Move a graph to `device` in the form this method needs.

        Raises:
            GraphError: the method cannot treat this graph, with the reason.
        """

    def check_trainable(self, prepared: Prepared) -> None:
        """Raise GraphError, with the reason and a remedy, if training on this graph cannot work."""

    def memory(self, prepared: Prepared) -> float | None:
        """Return about how many bytes training takes beside the prepared graph; None where nobody knows."""
        return None

    def spare_memory(self) -> bool:
        """Work in smaller pieces from now on, with the same result; return whether that was possible."""
        return False

    @abstractmethod
    def objectives(self, prepared: Prepared, random: torch.Generator) -> Iterator[Objective]:
        """Yield what to minimise in one epoch, in turn; each has been stepped on before the next is computed."""

    def closing_steps(self, epochs: int) -> int:
        """Return how often to minimise what `closing` yields after the last of `epochs`: never, for most methods."""
        return 0

    def closing(self, prepared: Prepared, random: torch.Generator) -> Iterator[Objective]:
        """Yield what to minimise in one step after the last epoch, in turn."""
        return iter(())

    @abstractmethod
    def encode(self, prepared: Prepared) -> Encoding:
        """Return the embeddings, deterministically and without gradient."""
