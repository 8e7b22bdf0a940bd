"""The contract every method implements.

A method is a `torch.nn.Module` built from its own settings. It prepares a graph once, yields objectives step by step
while the trainer optimises them, and encodes graphs. It never sees labels unless it says so, and never touches files.
How fast all that goes is nobody's business here: a step is written down plainly, and the trainer and the operations it
is made of do the rest.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from fossil.errors import SettingError, nearest
from fossil.graph.graph import Graph
from fossil.graph.splits import TrainingSplit
from fossil.seeding import derive
from fossil.settings import Settings

Prepared = TypeVar("Prepared")

_SMALL_GRAPH = 3_000  # nodes from which on training gets longer where a method asks for that
_LONGER = 0.75  # the power of the number of nodes with which it does

Record: TypeAlias = Mapping[str, Tensor | float]
"""What is written into the history of a run: scalars by name. Tensors stay on their device until they are fetched."""

Schedule: TypeAlias = Callable[[int, int], float]
"""From a step's number, counted from zero, and the number of all steps, to the factor of the learning rate."""


class Objective(NamedTuple):
    """Something to minimise now.

    Attributes:
        terms: what the loss is the sum of, scalars by name; at least one. The history has each of them.
        groups: names of the parameter groups that take a step on it.
        diagnose: returns what else the history should have. It is called when the step has been taken, without
            gradients, where nothing waits for it; what it reads must be the numbers of this step.
    """

    terms: Mapping[str, Tensor]
    groups: tuple[str, ...]
    diagnose: Callable[[], Record] = dict


class NodeVectors(NamedTuple):
    """What a method says of every node.

    Attributes:
        vectors: N×D.
        fusion: λ, the weight of structure per node (N), where the method has such a thing.
        structure_share: how much of a vector comes from structure, 0 to 1 (N), where there is a λ.
        channels: how far each node trusts each channel, by name (N each, adding up to one), where there are channels.
        channel_shares: the share of each channel in the vectors, by name.
    """

    vectors: Tensor
    fusion: Tensor | None = None
    structure_share: Tensor | None = None
    channels: Mapping[str, Tensor] | None = None
    channel_shares: Mapping[str, float] | None = None

    def on_host(self) -> Self:
        """Return the same in the host's memory, in float32."""
        fusion, share = (None if each is None else each.float().cpu() for each in (self.fusion, self.structure_share))
        channels = None if self.channels is None else {name: each.cpu() for name, each in self.channels.items()}
        return type(self)(self.vectors.float().cpu(), fusion, share, channels, self.channel_shares)


class Cost(NamedTuple):
    """What a step costs with default settings, in leading terms, for the table in the documentation.

    N nodes, E directed edges, F features, nnz(X) non-zero ones, D the widest layer; S subgraphs of K nodes, T
    iterations of a transport solver, B subgraphs in a batch, M sampled neighbours, P terms of a polynomial, n training
    nodes.

    Attributes:
        encodings: passes of the encoder over the whole graph.
        time: operations.
        memory: numbers kept beside the features.
    """

    encodings: str
    time: str
    memory: str


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


@dataclass(frozen=True)
class Phase:
    """Steps of another kind, after the last epoch.

    Attributes:
        name: its randomness is derived from it.
        steps: how many.
        step: yields what to minimise in one of them, as `Method.step` does.
    """

    name: str
    steps: int
    step: Callable[[Any, torch.Generator], Iterator[Objective]]


class Method(nn.Module, ABC, Generic[Prepared]):
    """A way to learn node embeddings.

    A step runs the same operations on tensors of the same shapes each time and never waits for the device, so that a
    GPU can capture it once and replay it: no `.item()`, no indexing with masks, no `torch.unique`, no random numbers
    but those of the generator it is given. A method that cannot keep to that declares `data_dependent`.

    Class attributes:
        name: name on the command line.
        title: name in tables.
        paper: where it comes from.
        cost: what a step costs.
        version: raised whenever a change moves the numbers of trainings, so that a study does them anew.
        needs_labels: whether training reads labels.
        trained: whether there is anything to train; `Untrained` is for methods that only `fit`.
        undirected: whether a directed graph is made undirected first, so that its direction does not matter.
        data_dependent: whether shapes or operations of a step depend on values.
        epochs: training steps when nobody says how many.
        most_epochs: where larger graphs are trained for longer, the most that any of them gets; None where all get the
            same.
        Config: its settings.
        presets: named sets of overrides of the defaults, first the default preset.
        small: settings for a graph of a few dozen nodes, which tests of the contract use.
        whole_because: why its steps need the whole graph, in words, where it cannot be trained on samples.
        filled_in: settings that a run fills in from its graph and its seed, and that do not set it apart from others.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    cost: ClassVar[Cost]
    version: ClassVar[int] = 1
    needs_labels: ClassVar[bool] = False
    trained: ClassVar[bool] = True
    undirected: ClassVar[bool] = False
    data_dependent: ClassVar[bool] = False
    epochs: ClassVar[int] = 300
    most_epochs: ClassVar[int | None] = None
    Config: ClassVar[type[Settings]]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {}}
    small: ClassVar[Mapping[str, Any]] = {"width": 8}
    filled_in: ClassVar[tuple[str, ...]] = ()
    whole_because: ClassVar[str] = "it is written for all nodes at once"

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
            torch.default_generator.manual_seed(derive(seed, "weights"))  # torch.manual_seed would seed those of GPUs
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

    @classmethod
    def epochs_for(cls, nodes: int) -> int:
        """Return how many epochs to train on a graph of so many nodes when nobody says."""
        if cls.most_epochs is None:
            return cls.epochs
        return min(cls.most_epochs, round(cls.epochs * math.pow(max(1.0, nodes / _SMALL_GRAPH), _LONGER)))

    @classmethod
    def epochs_in_words(cls) -> str:
        """Return what help and pages say of them."""
        longer = "" if cls.most_epochs is None else f" to {cls.most_epochs:,}, by size,"
        return f"{cls.epochs:,}{longer}"

    @classmethod
    def complete(cls, config: Settings, graph: Graph, seed: int) -> Settings:
        """Return the settings with what a run fills in from its graph and its seed."""
        return config

    @classmethod
    def vector_columns(cls, config: Settings, num_features: int) -> int:
        """Return how many numbers a vector has, by complete settings; 0 where nobody knows before there is one."""
        return int(getattr(config, "width", 0))

    @classmethod
    def training_split(cls, config: Settings, graph_name: str) -> TrainingSplit | None:
        """Return the split whose labels training reads; None for a method that reads none.

        Args:
            config: complete settings.
            graph_name: catalogue name of the graph, empty for any other.
        """
        return None

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

    def fit(self, prepared: Prepared, random: torch.Generator) -> None:
        """Work out, once and before the first step, what is computed from the graph and not trained; mostly nothing.

        What it finds is kept in buffers, so that weights and checkpoints have it.
        """

    @abstractmethod
    def step(self, prepared: Prepared, random: torch.Generator) -> Iterator[Objective]:
        """Yield what to minimise in one step, in turn; each has been stepped on before the next is computed."""

    def closing(self, steps: int) -> Sequence[Phase]:
        """Return what follows the last of so many steps, in turn; nothing, for most methods."""
        return ()

    @abstractmethod
    def encode(self, prepared: Prepared) -> NodeVectors:
        """Return the embeddings, deterministically and without gradient."""


class Untrained(Method[Prepared]):
    """A method with nothing to train: `fit` works everything out, and there are no epochs."""

    trained = False
    epochs = 0

    def parameter_groups(self) -> dict[str, ParameterGroup]:
        """Return none."""
        return {}

    def step(self, prepared: Prepared, random: torch.Generator) -> Iterator[Objective]:
        """Yield nothing."""
        yield from ()
