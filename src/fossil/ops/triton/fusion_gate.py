"""The fusion layer as one GPU program and its gradient as another. Needs Triton.

Of each node the gate has the hidden numbers of its two linear maps, h of the features and h of the structure, with
bias, activation and dropout; `join` makes the logit of λ of them and of the centrality. Tensors are contiguous and
float32, but the branches H^f and H^s may be narrower. Sums are float32.
"""

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from fossil.ops.fusion_gate import GateInputs, GateRule, GateWeights
from fossil.ops.triton.jit import block_size, ceil_div, jit, kernel, launch
from fossil.ops.triton.tiles import load_block, multiply

GATE_LAUNCH = {"DEPTH": 64, "num_warps": 4, "num_stages": 3}
DRAINED = 4096
"""Numbers of H that a program writes at a time: as many as its registers hold of both branches."""
FEW_NODES = 132 * 64
"""Up to so many nodes, programs of 16 rows are enough for an H200 and of 32 are not; with more nodes, 32 rows read the
weights half as often. Counted, not timed."""

MIXING = {"ROWS": 8, "COLUMNS": 128, "num_warps": 4}

GRADIENT_ROWS = 32
PROGRAMS = 512
"""Programs that the gradient is spread over, each with partial sums of its own."""


def gate(
    inputs: GateInputs, weights: GateWeights, rule: GateRule, precision: str, *, mix: bool, keep: bool
) -> tuple[Tensor | None, Tensor, Tensor | None]:
    """Return H = H^f + λ H^s (N×D) if `mix`, λ (N×1), and the hidden numbers (N×2h) if `keep`.

    Args:
        inputs: contiguous constants.
        weights: of the gate.
        rule: how it is set up.
        precision: of products, `tf32` or `ieee`.
        mix: whether H is wanted.
        keep: whether the gradient will be.
    """
    count, (hidden, width) = len(inputs.feature), weights.feature_weight.shape
    fusion = weights.feature_weight.new_empty(count, 1)
    mixed = fusion.new_empty(count, width) if mix else None
    kept = fusion.new_empty(count, 2 * hidden) if keep else None
    rows = 16 if count <= FEW_NODES else 32
    launch(
        gate_kernel, (ceil_div(count, rows),),
        fusion, mixed, kept, *inputs, *weights, rule.drop, count, WIDTH=width, HIDDEN=hidden,
        NONLINEAR=rule.nonlinear, DROP_LOGIT=rule.drop_logit and inputs.uniforms is not None, PRECISION=precision,
        ROWS=rows, UNITS=block_size(hidden), DRAIN=DRAINED // rows, **GATE_LAUNCH,
    )  # fmt: skip
    return mixed, fusion, kept


def mixing_gradient(upstream: Tensor, fusion: Tensor, kind: torch.dtype) -> Tensor:
    """Return the gradient of the branches, H^f above H^s (2N×D of dtype `kind`), given that of H (N×D) and λ (N×1)."""
    count, width = upstream.shape
    gradient = upstream.new_empty(2 * count, width, dtype=kind)
    grid = ceil_div(count, MIXING["ROWS"]), ceil_div(width, MIXING["COLUMNS"])
    launch(mixing_gradient_kernel, grid, gradient, upstream, fusion, count, WIDTH=width, **MIXING)
    return gradient


def gradients(
    upstream: Tensor, fusion: Tensor, kept: Tensor, inputs: GateInputs, join: Tensor, rule: GateRule
) -> tuple[Tensor, ...]:
    """Return the gradients of all weights, in their order, given that of λ (N×1)."""
    feature, structure, centrality, uniforms = inputs
    count, hidden = len(fusion), kept.shape[1] // 2
    chunk = ceil_div(ceil_div(count, GRADIENT_ROWS), PROGRAMS) * GRADIENT_ROWS
    programs = ceil_div(count, chunk)
    outer = kept.new_empty(2, count, hidden)
    parts = kept.new_empty(programs, 4 * hidden + 2)
    launch(
        gradients_kernel, (programs,),
        outer, parts, upstream, fusion, kept, centrality, uniforms, join, rule.drop, count, chunk,
        HIDDEN=hidden, NONLINEAR=rule.nonlinear, DROP_LOGIT=rule.drop_logit and uniforms is not None,
        ROWS=GRADIENT_ROWS, UNITS=block_size(hidden), num_warps=4,
    )  # fmt: skip
    of_feature, of_structure, of_join, of_bias = torch.split(parts.sum(0), [hidden, hidden, 2 * hidden + 1, 1])
    with torch.autocast(feature.device.type, enabled=False):
        weights = [outer[i].T @ branch.float() for i, branch in enumerate((feature, structure))]
    return weights[0], of_feature, weights[1], of_structure, of_join[None, : join.numel()], of_bias


@kernel("count")
def mixing_gradient_kernel(
    gradient_pointer: tl.tensor,
    upstream_pointer: tl.tensor,
    fusion_pointer: tl.tensor,
    count: tl.tensor,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Write the gradient g and below it λ g, for block `program_id(0)` of rows and block `program_id(1)` of columns.

    Args:
        gradient_pointer: 2N×WIDTH to write.
        upstream_pointer: N×WIDTH, g.
        fusion_pointer: N float32, λ.
        count: N.
        WIDTH: D.
        ROWS: rows of a block.
        COLUMNS: columns of a block.
    """
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    upstream = load_block(upstream_pointer, rows, columns, count, WIDTH)
    fusion = tl.load(fusion_pointer + rows, mask=rows < count, other=0.0)
    inside = (rows < count)[:, None] & (columns < WIDTH)[None, :]
    places = gradient_pointer + rows[:, None] * WIDTH + columns[None, :]
    kind = gradient_pointer.dtype.element_ty
    tl.store(places, upstream.to(kind), mask=inside)
    tl.store(places + count.to(tl.int64) * WIDTH, (fusion[:, None] * upstream).to(kind), mask=inside)


@jit
def _weights(
    pointer: tl.tensor, depths: tl.tensor, units: tl.tensor, WIDTH: tl.constexpr, HIDDEN: tl.constexpr
) -> tl.tensor:
    """Load some columns of a HIDDEN×WIDTH weight, transposed."""
    inside = (depths < WIDTH)[:, None] & (units < HIDDEN)[None, :]
    return tl.load(pointer + units[None, :] * WIDTH + depths[:, None], mask=inside, other=0.0)


@jit
def _scale(uniforms: tl.tensor, share: tl.tensor) -> tl.tensor:
    """Return what dropout multiplies with."""
    return tl.where(uniforms >= share, 1.0 / (1.0 - share), 0.0)


@jit
def _dropout(
    values: tl.tensor,
    uniform_pointer: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    count: tl.tensor,
    share: tl.tensor,
    DRAWN: tl.constexpr,
) -> tl.tensor:
    """Return values after the dropout that some columns of N×DRAWN uniform numbers decide."""
    if uniform_pointer is not None:
        values *= _scale(load_block(uniform_pointer, rows, columns, count, DRAWN), share)
    return values


@jit
def _logit_dropout(
    values: tl.tensor,
    uniform_pointer: tl.tensor,
    rows: tl.tensor,
    count: tl.tensor,
    share: tl.tensor,
    HIDDEN: tl.constexpr,
    DROP_LOGIT: tl.constexpr,
) -> tl.tensor:
    """Return the logits, or their gradients, after the dropout that the last column of the uniform numbers decides."""
    if DROP_LOGIT:
        places = rows * (2 * HIDDEN + 1) + 2 * HIDDEN
        values *= _scale(tl.load(uniform_pointer + places, mask=rows < count, other=0.0), share)
    return values


@jit
def _activated(
    values: tl.tensor, bias_pointer: tl.tensor, units: tl.tensor, HIDDEN: tl.constexpr, NONLINEAR: tl.constexpr
) -> tl.tensor:
    """Return `values + bias`, after a ReLU if NONLINEAR."""
    values += tl.load(bias_pointer + units, mask=units < HIDDEN, other=0.0)[None, :]
    if NONLINEAR:
        values = tl.where(values <= 0, 0.0, values)  # this way round, NaN stays
    return values


@kernel("count")
def gate_kernel(
    fusion_pointer: tl.tensor,
    mixed_pointer: tl.tensor,
    kept_pointer: tl.tensor,
    feature_pointer: tl.tensor,
    structure_pointer: tl.tensor,
    centrality_pointer: tl.tensor,
    uniform_pointer: tl.tensor,
    feature_weight_pointer: tl.tensor,
    feature_bias_pointer: tl.tensor,
    structure_weight_pointer: tl.tensor,
    structure_bias_pointer: tl.tensor,
    join_weight_pointer: tl.tensor,
    join_bias_pointer: tl.tensor,
    share: tl.tensor,
    count: tl.tensor,
    WIDTH: tl.constexpr,
    HIDDEN: tl.constexpr,
    NONLINEAR: tl.constexpr,
    DROP_LOGIT: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    DEPTH: tl.constexpr,
    DRAIN: tl.constexpr,
) -> None:
    """Write λ, H and the hidden numbers of block `program_id(0)` of rows.

    Args:
        fusion_pointer: λ, N, to write.
        mixed_pointer: H, N×WIDTH, to write, or None.
        kept_pointer: hidden numbers, N×2·HIDDEN, to write, or None.
        feature_pointer: H^f, N×WIDTH.
        structure_pointer: H^s, N×WIDTH.
        centrality_pointer: N, or None.
        uniform_pointer: N×(2·HIDDEN + DROP_LOGIT) uniform numbers, or None for no dropout.
        feature_weight_pointer: HIDDEN×WIDTH.
        feature_bias_pointer: HIDDEN.
        structure_weight_pointer: HIDDEN×WIDTH.
        structure_bias_pointer: HIDDEN.
        join_weight_pointer: 2·HIDDEN, and one more for the centrality.
        join_bias_pointer: one number.
        share: what dropout drops.
        count: N.
        WIDTH: D.
        HIDDEN: h.
        NONLINEAR: whether a ReLU follows the two maps.
        DROP_LOGIT: whether the logit is dropped too, and has a uniform number.
        PRECISION: of products: `tf32` or `ieee`.
        ROWS: rows of a block.
        UNITS: a power of two, at least HIDDEN and 16.
        DEPTH: columns multiplied at a time.
        DRAIN: columns of H written at a time.
    """
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    units = tl.arange(0, UNITS)
    first = tl.zeros((ROWS, UNITS), tl.float32)
    second = tl.zeros((ROWS, UNITS), tl.float32)
    for start in range(0, WIDTH, DEPTH):
        depths = start + tl.arange(0, DEPTH)
        feature = load_block(feature_pointer, rows, depths, count, WIDTH)
        first = multiply(feature, _weights(feature_weight_pointer, depths, units, WIDTH, HIDDEN), first, PRECISION)
        structure = load_block(structure_pointer, rows, depths, count, WIDTH)
        second = multiply(
            structure, _weights(structure_weight_pointer, depths, units, WIDTH, HIDDEN), second, PRECISION
        )
    first = _activated(first, feature_bias_pointer, units, HIDDEN, NONLINEAR)
    second = _activated(second, structure_bias_pointer, units, HIDDEN, NONLINEAR)
    first = _dropout(first, uniform_pointer, rows, units, count, share, 2 * HIDDEN + DROP_LOGIT)
    second = _dropout(second, uniform_pointer, rows, HIDDEN + units, count, share, 2 * HIDDEN + DROP_LOGIT)

    real = units < HIDDEN
    of_first = tl.load(join_weight_pointer + units, mask=real, other=0.0)
    of_second = tl.load(join_weight_pointer + HIDDEN + units, mask=real, other=0.0)
    logit = tl.sum(first * of_first[None, :] + second * of_second[None, :], 1) + tl.load(join_bias_pointer)
    inside = rows < count
    if centrality_pointer is not None:
        centrality = tl.load(centrality_pointer + rows, mask=inside, other=0.0)
        logit += centrality * tl.load(join_weight_pointer + 2 * HIDDEN)
    logit = _logit_dropout(logit, uniform_pointer, rows, count, share, HIDDEN, DROP_LOGIT)
    fusion = 1.0 / (1.0 + tl.exp(-logit))
    tl.store(fusion_pointer + rows, fusion, mask=inside)
    if kept_pointer is not None:
        slots = kept_pointer + rows[:, None] * (2 * HIDDEN) + units[None, :]
        tl.store(slots, first, mask=inside[:, None] & real[None, :])
        tl.store(slots + HIDDEN, second, mask=inside[:, None] & real[None, :])
    if mixed_pointer is not None:
        for start in range(0, WIDTH, DRAIN):  # of rows that were read a moment ago
            columns = start + tl.arange(0, DRAIN)
            mixed = load_block(feature_pointer, rows, columns, count, WIDTH)
            mixed += fusion[:, None] * load_block(structure_pointer, rows, columns, count, WIDTH)
            places = rows[:, None] * WIDTH + columns[None, :]
            tl.store(mixed_pointer + places, mixed, mask=inside[:, None] & (columns < WIDTH)[None, :])


@kernel("count", "chunk")
def gradients_kernel(
    outer_pointer: tl.tensor,
    parts_pointer: tl.tensor,
    upstream_pointer: tl.tensor,
    fusion_pointer: tl.tensor,
    kept_pointer: tl.tensor,
    centrality_pointer: tl.tensor,
    uniform_pointer: tl.tensor,
    join_weight_pointer: tl.tensor,
    share: tl.tensor,
    count: tl.tensor,
    chunk: tl.tensor,
    HIDDEN: tl.constexpr,
    NONLINEAR: tl.constexpr,
    DROP_LOGIT: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
) -> None:
    """Write the gradients of what the two maps give, and their sums, for chunk `program_id(0)` of rows.

    Args:
        outer_pointer: 2×N×HIDDEN gradients of the products of features and of structure, to write.
        parts_pointer: programs×(4·HIDDEN + 2) sums to write, the gradients of both maps' biases, of the join's
            weights, of its weight of the centrality and of its bias.
        upstream_pointer: N gradients of λ.
        fusion_pointer: λ, N.
        kept_pointer: hidden numbers, N×2·HIDDEN.
        centrality_pointer: N, or None.
        uniform_pointer: N×(2·HIDDEN + DROP_LOGIT) uniform numbers, or None for no dropout.
        join_weight_pointer: 2·HIDDEN, and one more for the centrality.
        share: what dropout drops.
        count: N.
        chunk: rows of a program, a multiple of ROWS.
        HIDDEN: h.
        NONLINEAR: whether a ReLU follows the two maps.
        DROP_LOGIT: whether the logit is dropped too, and has a uniform number.
        ROWS: rows treated at a time.
        UNITS: a power of two, at least HIDDEN and 16.
    """
    units = tl.arange(0, UNITS)
    start = parts_pointer + tl.program_id(0) * (4 * HIDDEN + 2)
    begin = tl.program_id(0).to(tl.int64) * chunk
    end = tl.minimum(begin + chunk, count)
    of_bias = tl.zeros((ROWS,), tl.float32)
    of_centrality = tl.zeros((ROWS,), tl.float32)
    for half in tl.static_range(2):
        weight = tl.load(join_weight_pointer + half * HIDDEN + units, mask=units < HIDDEN, other=0.0)
        of_map = tl.zeros((ROWS, UNITS), tl.float32)
        of_join = tl.zeros((ROWS, UNITS), tl.float32)
        for first in range(begin, end, ROWS):
            rows = first + tl.arange(0, ROWS)
            inside = rows < count
            fusion = tl.load(fusion_pointer + rows, mask=inside, other=0.0)
            logit = tl.load(upstream_pointer + rows, mask=inside, other=0.0) * fusion * (1.0 - fusion)
            logit = _logit_dropout(logit, uniform_pointer, rows, count, share, HIDDEN, DROP_LOGIT)
            if half == 0:
                of_bias += logit
                if centrality_pointer is not None:
                    of_centrality += logit * tl.load(centrality_pointer + rows, mask=inside, other=0.0)
            # Padding columns of the first half hold numbers of the second, of which nothing is kept.
            columns = half * HIDDEN + units
            kept = load_block(kept_pointer, rows, columns, count, 2 * HIDDEN)
            outer = logit[:, None] * weight[None, :]
            if NONLINEAR:
                outer = tl.where(kept > 0, outer, 0.0)
            outer = _dropout(outer, uniform_pointer, rows, columns, count, share, 2 * HIDDEN + DROP_LOGIT)
            of_map += outer
            of_join += logit[:, None] * kept
            places = (half * count.to(tl.int64) + rows[:, None]) * HIDDEN + units[None, :]
            tl.store(outer_pointer + places, outer, mask=inside[:, None] & (units < HIDDEN)[None, :])
        tl.store(start + half * HIDDEN + units, tl.sum(of_map, 0), mask=units < HIDDEN)
        tl.store(start + (2 + half) * HIDDEN + units, tl.sum(of_join, 0), mask=units < HIDDEN)
    tl.store(start + 4 * HIDDEN, tl.sum(of_centrality, 0))
    tl.store(start + 4 * HIDDEN + 1, tl.sum(of_bias, 0))
