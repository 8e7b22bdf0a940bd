"""A batch of fused Gromov-Wasserstein problems: two measured structures and a cost between their nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, Self

import torch
from torch import Tensor

from fossil.errors import TransportError
from fossil.ops.objective import Marginals, ProblemTensors, evaluate

_DTYPES = (torch.float32, torch.float64)
_MASS_TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class FusedProblem(ProblemTensors):
    """B problems of matching n source nodes with m target nodes (Equation 1 of the paper).

    The objective of a plan T is `alpha <M, T> + (1 - alpha) sum_ijkl |C1_ik - C2_jl|² T_ij T_kl`.
    Problems of different sizes share a batch by padding with nodes of zero mass and any finite cost.

    Attributes:
        feature_cost: B×n×m costs between source and target nodes (M).
        source_structure: B×n×n costs among source nodes (C1).
        target_structure: B×m×m costs among target nodes (C2).
        source_mass: B×n non-negative masses, each row summing to one (mu).
        target_mass: B×m non-negative masses, each row summing to one (nu).
        alpha: weight of the feature term in [0, 1]; the structure term weighs 1 - alpha.
    """

    @classmethod
    def uniform(
        cls, feature_cost: Tensor, source_structure: Tensor, target_structure: Tensor, alpha: float
    ) -> FusedProblem:
        """Build problems whose nodes all have the same mass.

        >>> cost = torch.zeros(5, 3, 4)
        >>> problem = FusedProblem.uniform(cost, torch.zeros(5, 3, 3), torch.zeros(5, 4, 4), alpha=0.5)
        >>> problem.target_mass[0].tolist()
        [0.25, 0.25, 0.25, 0.25]
        """
        if feature_cost.dim() != 3:
            _refuse_shape("feature_cost", feature_cost, "(batch, source nodes, target nodes)")
        batch, n, m = feature_cost.shape
        source = feature_cost.new_full((batch, n), 1 / max(n, 1))
        target = feature_cost.new_full((batch, m), 1 / max(m, 1))
        return cls(feature_cost, source_structure, target_structure, source, target, alpha)

    @classmethod
    def of_features(cls, cost: Tensor) -> FusedProblem:
        """Build problems of features alone (B×n×m costs), whose nodes all have the same mass."""
        source, target = (cost.new_zeros(()).expand(*cost.shape[:-2], size, size) for size in cost.shape[-2:])
        return cls.uniform(cost, source, target, alpha=1.0)

    @classmethod
    def of_structures(cls, source_structure: Tensor, target_structure: Tensor) -> FusedProblem:
        """Build problems of structures alone (B×n×n and B×m×m costs), whose nodes all have the same mass."""
        shape = *source_structure.shape[:-1], target_structure.shape[-1]
        return cls.uniform(source_structure.new_zeros(()).expand(shape), source_structure, target_structure, alpha=0.0)

    def is_symmetric(self) -> bool:
        """Tell whether both structures are symmetric, as far as they have weight; waits for the device."""
        return self.alpha == 1 or all(
            torch.allclose(structure, structure.mT, rtol=1e-5, atol=1e-10)
            for structure in (self.source_structure, self.target_structure)
        )

    def check(self) -> Self:
        """Return the problem itself if it is well formed. Reads values back, so it waits for the device.

        Raises:
            TransportError: names the argument and, for bad values, the first bad problem of the batch.
        """
        self._check_kinds()
        self._check_shapes()
        self._check_values()
        return self

    def _check_kinds(self) -> None:
        if not (isinstance(self.alpha, (int, float)) and 0 <= self.alpha <= 1):
            raise TransportError(f"alpha={self.alpha!r} is not accepted.", remedy="Give a number between 0 and 1.")
        for name, tensor in self.tensors().items():
            if not isinstance(tensor, Tensor):
                raise TransportError(f"{name} is a {type(tensor).__name__}.", remedy="Give a torch tensor.")
            if tensor.dtype not in _DTYPES:
                raise TransportError(f"{name} has type {tensor.dtype}.", remedy="Give torch.float32 or torch.float64.")
            if tensor.dtype != self.feature_cost.dtype or tensor.device != self.feature_cost.device:
                raise TransportError(
                    f"{name} is {tensor.dtype} on {tensor.device}, feature_cost is {self.feature_cost.dtype} "
                    f"on {self.feature_cost.device}.",
                    remedy="Give all tensors one type and one device.",
                )

    def _check_shapes(self) -> None:
        if self.feature_cost.dim() != 3 or 0 in self.feature_cost.shape[1:]:
            _refuse_shape(
                "feature_cost", self.feature_cost, "(batch, source nodes, target nodes), with nodes on each side"
            )
        batch, n, m = self.feature_cost.shape
        expected = {
            "source_structure": (batch, n, n),
            "target_structure": (batch, m, m),
            "source_mass": (batch, n),
            "target_mass": (batch, m),
        }
        tensors = self.tensors()
        for name, shape in expected.items():
            if tensors[name].shape != shape:
                _refuse_shape(name, tensors[name], f"{shape}, to fit feature_cost of shape {(batch, n, m)}")

    def _check_values(self) -> None:
        for name, tensor in self.tensors().items():
            _refuse_where(~tensor.isfinite().flatten(1).all(1), name, "has a value that is NaN or infinite")
        for name, mass in (("source_mass", self.source_mass), ("target_mass", self.target_mass)):
            _refuse_where((mass < 0).any(1), name, "has a negative entry")
            _refuse_where((mass.sum(1) - 1).abs() > _MASS_TOLERANCE, name, "does not sum to one")

    def objective(self, plan: Tensor, marginals: Marginals = "actual") -> Tensor:
        """Evaluate plans in O(n² m + n m²), differentiably.

        Args:
            plan: B×n×m (T).
            marginals: weights of the squared costs. `actual` takes the plan's own marginals: the double sum above,
                never negative for non-negative feature costs. `prescribed` takes `<C1² mu 1ᵀ + 1 (C2² nu)ᵀ, T>`, as
                POT and the released code do. The two agree when the plan has the prescribed marginals.

        Returns:
            B values.

        Raises:
            SettingError: `marginals` is neither.
        """
        return evaluate(self, plan, marginals).value


def to_pot_alpha(alpha: float) -> float:
    """Return the `alpha` of POT for ours: POT weighs the structure term by alpha, the paper the feature term.

    >>> to_pot_alpha(0.75)
    0.25
    """
    return 1 - alpha


def _refuse_shape(name: str, tensor: Tensor, expected: str) -> NoReturn:
    raise TransportError(f"{name} has shape {tuple(tensor.shape)}.", remedy=f"The shape must be {expected}.")


def _refuse_where(bad: Tensor, name: str, complaint: str) -> None:
    if bad.any():
        first = int(bad.nonzero()[0, 0])
        raise TransportError(
            f"{name} of problem {first} {complaint}.",
            remedy="Costs and masses are finite; masses are non-negative and sum to one in each problem.",
        )
