"""FS-GCN and FS-MLP: what labels alone give, with and without the graph.

Two layers trained end to end with cross-entropy on the training nodes of one split. They are references, not
representation learning: FS-GCN bounds what a self-supervised embedding should reach, and FS-MLP tells whether a data
set needs its edges. The class scores Z stand where other methods have an embedding, so a run keeps them, and
`fossil evaluate` counts their greatest entry on the test nodes of the very split the run was trained on.

## Equations

    FS-GCN:  Z = S drop(relu(S drop(X) W₁ + b₁)) W₂ + b₂        S = D^-1/2 (A + I) D^-1/2,  D the row sums of A + I
    FS-MLP:  Z = drop(relu(drop(X) W₁ + b₁)) W₂ + b₂
    loss = mean over training nodes of -log softmax(Z)_label + (weight_decay / 2) (||W₁||² + ||b₁||²)

The penalty is on the first layer alone, as in Kipf and Welling (ICLR 2017). `aggregation: sum` takes S = A: sums over
neighbours without self-loops, as in FOSSIL's own encoder; an isolated node then has nothing but the biases. Adam, a
fixed number of epochs, no early stopping: of all labels, training sees those of the training nodes and no others.

## Splits

`split`, `nodes_per_class` and `split_seed` name the split. By default it is the one of the released code for the run's
own seed: 20 nodes per class on Cora, CiteSeer and PubMed, 60 % of the nodes on any other graph. `split: public` and
`split: geom_gcn` take the training nodes that were published with the graph, where it has some.

## Cost

A step of FS-GCN takes N F h + E h + N h C + E C operations for h hidden units and C classes, with the stored entries
of X in place of N F where X is sparse; memory is O(N F + E + N h). FS-MLP reads the n training rows: n F h + n h C.

## Differences from the official code

FOSSIL prints figures for both and publishes no code for them; width, self-loops and early stopping of its networks are
unknown. The defaults are those of Kipf and Welling's GCN (16 hidden units, dropout 0.5 before both layers, rate 0.01,
200 epochs). Unlike theirs, training does not stop on a validation loss, and both layers have a bias. On a directed
graph a node sums over the nodes it points to; the convolution of PyTorch Geometric sums over those that point to it
(`--direction reverse`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fossil.datasets.catalog import known_name
from fossil.errors import EvaluationError, GraphError, SettingError
from fossil.graph.graph import Array, Graph
from fossil.graph.published import PUBLISHED
from fossil.graph.splits import NODES_PER_CLASS, PER_CLASS_GRAPHS, SplitName, SplitRule, TrainingSplit
from fossil.graph.structure import row_normalized, symmetric_normalized
from fossil.methods.base import Cost, Method, NodeVectors, Objective, ParameterGroup, Record
from fossil.nn.convolution import GraphConvolution, project
from fossil.nn.effective_rank import sampled_rank
from fossil.ops.features import FeatureMatrix, dropout
from fossil.ops.sparse import SparseMatrix
from fossil.settings import Settings, setting

_SPLIT_SETTINGS = "The split is chosen with --set split=paper, --set nodes_per_class=N and --set split_seed=SEED."


class SupervisedSettings(Settings):
    """Settings of both references."""

    hidden: int = setting(
        16, "width of the hidden layer", ge=1, search=[16, 64, 128, 256, 512], origin="Kipf and Welling"
    )
    dropout: float = setting(
        0.5, "dropout before both layers", ge=0, lt=1, search=[0.0, 0.2, 0.5, 0.8], origin="Kipf and Welling"
    )
    learning_rate: float = setting(0.01, "of Adam", gt=0, search=[1e-3, 5e-3, 1e-2], origin="Kipf and Welling")
    weight_decay: float = setting(
        5e-4, "L2 penalty of the first layer", ge=0, search=[0.0, 1e-5, 5e-4, 1e-3, 1e-2], origin="Kipf and Welling"
    )
    normalize_features: bool = setting(
        False,
        "divide each node's features by the sum of their absolute values, which suits counts of words",
        search=[True, False],
        origin="Shchur et al. 2018; Kipf and Welling do so on Cora, CiteSeer and PubMed",
    )

    # The split. What is left open here is filled in when a run starts, and written to its configuration.
    split: SplitName = setting(
        "released", "rule that draws the training nodes, or the published splits to take them from"
    )
    nodes_per_class: int | None = setting(
        None,
        "training nodes of each class, for which the released split needs 1,500 nodes; None for the rule of the graph",
        ge=1,
    )
    split_seed: int | None = setting(None, "seed of the split; None for the seed of the run", ge=0)
    num_classes: int | None = setting(None, "C, number of classes; None for that of the graph", ge=1, le=2**31 - 1)

    def split_rule(self, graph_name: str) -> SplitRule:
        """Return how the training nodes of the graph with this catalogue name (empty for any other) are drawn."""
        usual = NODES_PER_CLASS if graph_name in PER_CLASS_GRAPHS and self.split not in PUBLISHED else None
        return SplitRule(self.split, self.nodes_per_class or usual)


class FSGCNSettings(SupervisedSettings):
    """Settings of FS-GCN."""

    aggregation: Literal["symmetric", "sum"] = setting(
        "symmetric", "normalised sums with self-loops (the usual GCN), or plain sums without (FOSSIL's encoder)"
    )


@dataclass(frozen=True, eq=False)
class TrainingPart:
    """The n training nodes of a split; no other label is known.

    Attributes:
        features: what the network reads in training: X for FS-GCN, the n training rows of X for FS-MLP.
        rows: n rows of the network's output that belong to the training nodes.
        labels: n class numbers.
    """

    features: FeatureMatrix
    rows: Tensor
    labels: Tensor


@dataclass(frozen=True, eq=False)
class SupervisedGraph:
    """A graph on a device.

    Attributes:
        features: X, N×F.
        propagation: S, N×N; None for FS-MLP.
        training: None where no labels are known, or none are needed.
    """

    features: FeatureMatrix
    propagation: SparseMatrix | None
    training: TrainingPart | None


class Supervised(Method[SupervisedGraph]):
    """Two layers under cross-entropy."""

    needs_labels = True
    whole_because = "its loss is over all training nodes of a split at once"
    epochs = 200
    small: ClassVar[Mapping[str, Any]] = {"hidden": 16, "num_classes": 3, "split_seed": 0}
    filled_in = ("num_classes", "split_seed")

    def __init__(self, config: SupervisedSettings, num_features: int) -> None:
        super().__init__(config, num_features)
        self.config = config
        if config.num_classes is None or config.split_seed is None:
            raise SettingError(
                f"{self.title} needs num_classes and split_seed.",
                remedy="A run fills them in; who builds the method by hand must set both.",
            )
        self.num_classes, self.split_seed = config.num_classes, config.split_seed
        self.first = GraphConvolution(num_features, config.hidden)
        self.second = GraphConvolution(config.hidden, self.num_classes)

    @classmethod
    def complete(cls, config: Settings, graph: Graph, seed: int) -> Settings:
        """Return the settings with the number of classes, and with the run's own seed for the split, where open."""
        known = {"num_classes": graph.num_classes, "split_seed": seed}
        return config.updated({name: value for name, value in known.items() if getattr(config, name) is None})

    @classmethod
    def vector_columns(cls, config: Settings, num_features: int) -> int:
        """Return C: a vector has a score of each class."""
        assert isinstance(config, SupervisedSettings)
        return config.num_classes or 0

    @classmethod
    def training_split(cls, config: Settings, graph_name: str) -> TrainingSplit | None:
        """Return the split whose training labels are read."""
        assert isinstance(config, SupervisedSettings) and config.split_seed is not None
        return TrainingSplit(config.split_rule(graph_name), config.split_seed)

    def parameter_groups(self) -> dict[str, ParameterGroup]:
        """Return each layer as a group, because the first alone is penalised."""
        rate = self.config.learning_rate
        return {
            "first": ParameterGroup(list(self.first.parameters()), rate, self.config.weight_decay),
            "second": ParameterGroup(list(self.second.parameters()), rate, 0.0),
        }

    def prepare(self, graph: Graph, device: torch.device) -> SupervisedGraph:
        """Move the graph to `device`, and, before training, the labels of its training nodes."""
        host = row_normalized(graph.features) if self.config.normalize_features else graph.features
        features, propagation = FeatureMatrix.from_host(host, device), self._propagation(graph, device)
        if graph.labels is None or not self.training:  # a trained method encodes graphs with any labels, or none
            return SupervisedGraph(features, propagation, None)
        nodes = self._training_nodes(graph, graph.labels)
        labels = torch.tensor(graph.labels[nodes], dtype=torch.int64, device=device)
        if propagation is None:  # each node is on its own, so the others need not be read
            read, rows = FeatureMatrix.from_host(host[nodes], device), torch.arange(len(nodes), device=device)
        else:
            read, rows = features, torch.tensor(nodes, device=device)
        return SupervisedGraph(features, propagation, TrainingPart(read, rows, labels))

    def _training_nodes(self, graph: Graph, labels: Array) -> Array:
        try:
            rule = self.config.split_rule(known_name(graph))
            nodes = rule.draw(labels, self.split_seed, graph.published_splits).train
        except EvaluationError as error:
            raise GraphError(error.what, remedy=f"{error.remedy} {_SPLIT_SETTINGS}") from error
        if graph.num_classes > self.num_classes:
            raise GraphError(
                f"{graph.name} has {graph.num_classes} classes, more than num_classes={self.num_classes}.",
                remedy="Leave num_classes out: it is then taken from the graph.",
            )
        return nodes

    def check_trainable(self, prepared: SupervisedGraph) -> None:
        """Raise GraphError where there are no training labels."""
        if prepared.training is None:
            raise GraphError(
                f"{self.title} trains on labels, and the graph was prepared without any.",
                remedy="Name a label column (--label COLUMN), and prepare the graph in training mode.",
            )

    def step(self, prepared: SupervisedGraph, random: torch.Generator) -> Iterator[Objective]:
        """Yield the cross-entropy on the training nodes."""
        part = prepared.training
        assert part is not None
        scores = self.class_scores(part.features, prepared.propagation, random).index_select(0, part.rows)
        loss = torch.nn.functional.cross_entropy(scores, part.labels)

        def diagnose() -> Record:
            right = (scores.argmax(1) == part.labels).float().mean()
            return {"training_accuracy": right, "effective_rank": sampled_rank(scores)}

        yield Objective({"loss": loss}, ("first", "second"), diagnose)

    @torch.no_grad()
    def encode(self, prepared: SupervisedGraph) -> NodeVectors:
        """Return Z of every node, N×C."""
        return NodeVectors(self.class_scores(prepared.features, prepared.propagation))

    @abstractmethod
    def class_scores(
        self, features: FeatureMatrix, propagation: SparseMatrix | None, random: torch.Generator | None = None
    ) -> Tensor:
        """Return Z for these rows of X; with `random` in training mode (dropout), without it deterministically."""

    @abstractmethod
    def _propagation(self, graph: Graph, device: torch.device) -> SparseMatrix | None:
        """Return S, or None."""


class FSGCN(Supervised):
    """Two graph convolutions."""

    name = "fs_gcn"
    title = "FS-GCN"
    paper = "Kipf and Welling, ICLR 2017, arXiv 1609.02907"
    cost = Cost("1", "nnz(X)·D + E·D", "N·D + E")
    Config = FSGCNSettings
    config: FSGCNSettings

    def class_scores(
        self, features: FeatureMatrix, propagation: SparseMatrix | None, random: torch.Generator | None = None
    ) -> Tensor:
        """Return Z = S drop(relu(S drop(X) W₁ + b₁)) W₂ + b₂, N×C."""
        assert propagation is not None
        hidden = torch.relu(self.first(features.dropout(self.config.dropout, random), propagation))
        scores: Tensor = self.second(dropout(hidden, self.config.dropout, random), propagation)
        return scores

    def _propagation(self, graph: Graph, device: torch.device) -> SparseMatrix:
        plain = self.config.aggregation == "sum"
        return SparseMatrix.from_scipy(
            graph.adjacency if plain else symmetric_normalized(graph.adjacency, self_loops=True), device
        )


class FSMLP(Supervised):
    """The same two layers without the graph."""

    name = "fs_mlp"
    title = "FS-MLP"
    paper = "the reference without edges in Kipf and Welling, ICLR 2017, arXiv 1609.02907"
    cost = Cost("none; n nodes", "nnz(X)·D of the n nodes", "n·D")
    Config = SupervisedSettings

    def class_scores(
        self, features: FeatureMatrix, propagation: SparseMatrix | None, random: torch.Generator | None = None
    ) -> Tensor:
        """Return Z = drop(relu(drop(X) W₁ + b₁)) W₂ + b₂ for the given rows of X."""
        dropped = features.dropout(self.config.dropout, random)
        hidden = torch.relu(self.first.finish(project(dropped, self.first.weight)))
        return self.second.finish(project(dropout(hidden, self.config.dropout, random), self.second.weight))

    def _propagation(self, graph: Graph, device: torch.device) -> None:
        return None
