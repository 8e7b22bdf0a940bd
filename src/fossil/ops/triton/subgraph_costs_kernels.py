"""Costs between and within sampled subgraphs as GPU programs. Needs Triton.

Subgraph i has five pairs: (H_i, Ĥ_i), (H_i, H_a), (H_i, Ĥ_b), (H_i, H_i) and (Ĥ_i, Ĥ_i), numbered from 0 to 4, with a
and b the rows of other subgraphs. Tensors are contiguous, indices int64. The length of a vector too short to have a
direction is kept as -1, and the vector is divided by one.
"""

from __future__ import annotations

import triton.language as tl

from fossil.ops.triton.jit import jit, kernel
from fossil.ops.triton.tiles import load_matrix, load_vector, multiply, store_matrix

_FAR = tl.constexpr(3.4e38)


@jit
def _partner(i: tl.tensor, pair: tl.tensor, a_pointer: tl.tensor, b_pointer: tl.tensor) -> tl.tensor:
    """Return the row of the pair's second subgraph."""
    return tl.where(pair == 1, tl.load(a_pointer + i), tl.where(pair == 2, tl.load(b_pointer + i), i))


@jit
def _costs_of(
    i: tl.tensor,
    pair: tl.tensor,
    feature_pointer: tl.tensor,
    of_first_pointer: tl.tensor,
    of_second_pointer: tl.tensor,
    count: tl.tensor,
    area: tl.tensor,
) -> tl.tensor:
    """Return where the costs of a pair are, or their gradients."""
    within = tl.where(pair == 3, of_first_pointer, of_second_pointer)
    return tl.where(pair < 3, feature_pointer + pair * count * area, within) + i * area


@jit
def _rows(nodes_pointer: tl.tensor, subgraph: tl.tensor, size: tl.tensor, TILE: tl.constexpr) -> tl.tensor:
    """Return the nodes of a subgraph and which lanes hold one."""
    lanes = tl.arange(0, TILE)
    return tl.load(nodes_pointer + subgraph * size + lanes, mask=lanes < size, other=0), lanes < size


@jit
def _places(
    nodes: tl.tensor, present: tl.tensor, start: tl.tensor, WIDTH: tl.constexpr, DEPTH: tl.constexpr
) -> tl.tensor:
    """Return where DEPTH columns of the nodes' rows are in an N×D matrix, and which of them exist."""
    columns = start + tl.arange(0, DEPTH)
    return nodes[:, None] * WIDTH + columns[None, :], present[:, None] & (columns < WIDTH)[None, :]


@jit
def _range(value: tl.tensor, inside: tl.tensor) -> tl.tensor:
    """Return the least and the greatest entry."""
    low = tl.min(tl.min(tl.where(inside, value, _FAR), 1), 0)
    return low, tl.max(tl.max(tl.where(inside, value, -_FAR), 1), 0)


@jit
def _total(values: tl.tensor) -> tl.tensor:
    return tl.sum(tl.sum(values, 1), 0)


@jit
def _lengths(
    length_pointer: tl.tensor,
    i: tl.tensor,
    partner: tl.tensor,
    pair: tl.tensor,
    count: tl.tensor,
    size: tl.tensor,
    TILE: tl.constexpr,
) -> tl.tensor:
    """Return the lengths of the left and of the right vectors of a pair."""
    lanes = tl.arange(0, TILE)
    left_view = tl.where(pair == 4, 1, 0)
    right_view = tl.where((pair == 1) | (pair == 3), 0, 1)
    left = tl.load(length_pointer + (left_view * count + i) * size + lanes, mask=lanes < size, other=-1.0)
    right = tl.load(length_pointer + (right_view * count + partner) * size + lanes, mask=lanes < size, other=-1.0)
    return left, right


@kernel()
def length_kernel(
    length_pointer: tl.tensor,
    first_pointer: tl.tensor,
    second_pointer: tl.tensor,
    nodes_pointer: tl.tensor,
    shortest: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Write the length of the vector that place `program_id(0)` of the subgraphs has in view `program_id(1)`.

    Args:
        length_pointer: 2×S×K lengths to write.
        first_pointer: H, N×D.
        second_pointer: Ĥ, N×D.
        nodes_pointer: S×K nodes of the subgraphs.
        shortest: the longest length that is too short.
        WIDTH: D.
        BLOCK: a power of two, at least D.
    """
    place = tl.program_id(0)
    view = tl.program_id(1)
    columns = tl.arange(0, BLOCK)
    start = tl.where(view == 0, first_pointer, second_pointer) + tl.load(nodes_pointer + place) * WIDTH
    vector = tl.load(start + columns, mask=columns < WIDTH, other=0.0)
    length = tl.sqrt(tl.sum(vector * vector, 0))
    tl.store(length_pointer + view * tl.num_programs(0) + place, tl.where(length > shortest, length, -1.0))


@kernel()
def subgraph_cost_kernel(
    feature_pointer: tl.tensor,
    of_first_pointer: tl.tensor,
    of_second_pointer: tl.tensor,
    cosine_pointer: tl.tensor,
    length_pointer: tl.tensor,
    first_pointer: tl.tensor,
    second_pointer: tl.tensor,
    nodes_pointer: tl.tensor,
    a_pointer: tl.tensor,
    b_pointer: tl.tensor,
    rate: tl.tensor,
    share: tl.tensor,
    count: tl.tensor,
    size: tl.tensor,
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
    TILE: tl.constexpr,
    DEPTH: tl.constexpr,
) -> None:
    """Write the costs of pair `program_id(1)` of subgraph `program_id(0)`, and the cosines they are made of.

    Vectors are read for the products alone: had they a second use, say for their lengths, Triton would lay them out in
    shared memory such that eight threads at a time wait for the same bank, which took three times as long.

    Args:
        feature_pointer: 3S×K×K costs to write, of the pairs 0, 1 and 2.
        of_first_pointer: S×K×K costs to write, of pair 3.
        of_second_pointer: S×K×K costs to write, of pair 4.
        cosine_pointer: 5×S×K×K cosines to write.
        length_pointer: 2×S×K lengths.
        first_pointer: H, N×D.
        second_pointer: Ĥ, N×D.
        nodes_pointer: S×K nodes of the subgraphs.
        a_pointer: S rows of other subgraphs.
        b_pointer: S rows of other subgraphs.
        rate: 1/τ.
        share: of the range of the costs, by which they are lowered.
        count: S.
        size: K.
        WIDTH: D.
        PRECISION: of products of embeddings, `tf32x3` or `tf32`.
        TILE: 16, 32 or 64, at least K.
        DEPTH: columns of embeddings at a time, a power of two from 16 on.
    """
    i = tl.program_id(0).to(tl.int64)
    pair = tl.program_id(1).to(tl.int64)
    partner = _partner(i, pair, a_pointer, b_pointer)
    left_pointer = tl.where(pair == 4, second_pointer, first_pointer)
    right_pointer = tl.where((pair == 1) | (pair == 3), first_pointer, second_pointer)
    left_nodes, present = _rows(nodes_pointer, i, size, TILE)
    right_nodes, _ = _rows(nodes_pointer, partner, size, TILE)

    nothing = tl.zeros((TILE, TILE), tl.float32)
    products = nothing
    for start in range(0, WIDTH, DEPTH):
        left_places, left_inside = _places(left_nodes, present, start, WIDTH, DEPTH)
        right_places, right_inside = _places(right_nodes, present, start, WIDTH, DEPTH)
        left = tl.load(left_pointer + left_places, mask=left_inside, other=0.0)
        right = tl.load(right_pointer + right_places, mask=right_inside, other=0.0)
        # Tensor cores cut off what they add up, so each chunk starts anew and the chunks are added here, rounded.
        products += multiply(left, tl.trans(right), nothing, PRECISION)

    left_length, right_length = _lengths(length_pointer, i, partner, pair, count, size, TILE)
    cosine = products * (1 / tl.abs(left_length))[:, None] * (1 / tl.abs(right_length))[None, :]
    store_matrix(cosine_pointer + (pair * count + i) * size * size, cosine, size, size, TILE)

    value = tl.exp(-cosine * rate)
    low, high = _range(value, present[:, None] & present[None, :])
    point = low + share * (high - low)
    cost = tl.where(value <= point, 0.0, value - point)  # which leaves a NaN a NaN
    costs = _costs_of(i, pair, feature_pointer, of_first_pointer, of_second_pointer, count, size * size)
    store_matrix(costs, cost, size, size, TILE)


@kernel()
def pull_kernel(
    pull_pointer: tl.tensor,
    drag_pointer: tl.tensor,
    cosine_pointer: tl.tensor,
    length_pointer: tl.tensor,
    feature_pointer: tl.tensor,
    of_first_pointer: tl.tensor,
    of_second_pointer: tl.tensor,
    a_pointer: tl.tensor,
    b_pointer: tl.tensor,
    rate: tl.tensor,
    share: tl.tensor,
    count: tl.tensor,
    size: tl.tensor,
    TILE: tl.constexpr,
) -> None:
    """Write by how much the vectors of pair `program_id(1)` of subgraph `program_id(0)` pull at one another.

    With G the gradient in the cosines c, that in x is Σ_j G_j (y_j/|y_j| - c_j x/|x|) / |x|: the other vectors times
    the pull G_j / (|x| |y_j|), less x times the drag Σ_j G_j c_j / |x|². A vector too short has no drag. A subgraph
    paired with itself stands on both sides; its pull and its drag by rows are those of both together.

    Args:
        pull_pointer: 5×S×K×K pulls to write.
        drag_pointer: 2×5×S×K drags to write, of the left vectors (rows) and of the right ones (columns).
        cosine_pointer: 5×S×K×K.
        length_pointer: 2×S×K.
        feature_pointer: 3S×K×K gradients in the costs of the pairs 0, 1 and 2.
        of_first_pointer: S×K×K gradients in those of pair 3.
        of_second_pointer: S×K×K gradients in those of pair 4.
        a_pointer: S rows of other subgraphs.
        b_pointer: S rows of other subgraphs.
        rate: 1/τ.
        share: of the range of the costs.
        count: S.
        size: K.
        TILE: 16, 32 or 64, at least K.
    """
    i = tl.program_id(0).to(tl.int64)
    pair = tl.program_id(1).to(tl.int64)
    number = pair * count + i
    lanes = tl.arange(0, TILE)
    present = lanes < size
    inside = present[:, None] & present[None, :]
    cosine = load_matrix(cosine_pointer + number * size * size, size, size, size, 1, False, TILE)
    upstream = _costs_of(i, pair, feature_pointer, of_first_pointer, of_second_pointer, count, size * size)
    outer = load_matrix(upstream, size, size, size, 1, False, TILE)

    # Through the threshold: both extremes move it, and equal ones share what it receives, as in PyTorch.
    value = tl.exp(-cosine * rate)
    low, high = _range(value, inside)
    outer = tl.where(inside & (value > low + share * (high - low)), outer, 0.0)
    lowest = (inside & (value == low)).to(tl.float32)
    highest = (inside & (value == high)).to(tl.float32)
    outer -= _total(outer) * ((1 - share) * lowest / _total(lowest) + share * highest / _total(highest))
    gradient = -rate * value * outer
    if pair >= 3:
        gradient += tl.trans(gradient)

    partner = _partner(i, pair, a_pointer, b_pointer)
    left, right = _lengths(length_pointer, i, partner, pair, count, size, TILE)
    pull = gradient * (1 / tl.abs(left))[:, None] * (1 / tl.abs(right))[None, :]
    store_matrix(pull_pointer + number * size * size, pull, size, size, TILE)
    left_drag = tl.where(left > 0, tl.sum(gradient * cosine, 1) / (left * left), 0.0)
    right_drag = tl.where(right > 0, tl.sum(gradient * cosine, 0) / (right * right), 0.0)
    tl.store(drag_pointer + number * size + lanes, left_drag, mask=present)
    tl.store(drag_pointer + (5 * count + number) * size + lanes, right_drag, mask=present)


@jit
def _pull(pull_pointer: tl.tensor, number: tl.tensor, size: tl.tensor, TILE: tl.constexpr) -> tl.tensor:
    return load_matrix(pull_pointer + number * size * size, size, size, size, 1, False, TILE)


@jit
def _dragged(
    drag_pointer: tl.tensor, number: tl.tensor, vectors: tl.tensor, size: tl.tensor, TILE: tl.constexpr
) -> tl.tensor:
    """Return each vector times its drag."""
    return load_vector(drag_pointer + number * size, size, TILE)[:, None] * vectors


@kernel()
def embedding_gradient_kernel(
    first_gradient_pointer: tl.tensor,
    second_gradient_pointer: tl.tensor,
    pull_pointer: tl.tensor,
    drag_pointer: tl.tensor,
    first_pointer: tl.tensor,
    second_pointer: tl.tensor,
    nodes_pointer: tl.tensor,
    a_pointer: tl.tensor,
    b_pointer: tl.tensor,
    count: tl.tensor,
    size: tl.tensor,
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
    TILE: tl.constexpr,
    DEPTH: tl.constexpr,
) -> None:
    """Add the gradients of the pairs of subgraph `program_id(0)` to DEPTH columns of those of the embeddings.

    One program treats all five pairs, which meet four sets of rows: each of them is read and added to once.

    Args:
        first_gradient_pointer: N×D gradient in H to add to.
        second_gradient_pointer: N×D gradient in Ĥ to add to.
        pull_pointer: 5×S×K×K.
        drag_pointer: 2×5×S×K.
        first_pointer: H, N×D.
        second_pointer: Ĥ, N×D.
        nodes_pointer: S×K nodes of the subgraphs.
        a_pointer: S rows of other subgraphs.
        b_pointer: S rows of other subgraphs.
        count: S.
        size: K.
        WIDTH: D.
        PRECISION: of products of embeddings, `tf32x3` or `tf32`.
        TILE: 16, 32 or 64, at least K.
        DEPTH: columns of a program, a power of two from 16 on.
    """
    i = tl.program_id(0).to(tl.int64)
    start = tl.program_id(1) * DEPTH
    nodes, present = _rows(nodes_pointer, i, size, TILE)
    a_nodes, _ = _rows(nodes_pointer, tl.load(a_pointer + i), size, TILE)
    b_nodes, _ = _rows(nodes_pointer, tl.load(b_pointer + i), size, TILE)
    places, inside = _places(nodes, present, start, WIDTH, DEPTH)
    a_places, _ = _places(a_nodes, present, start, WIDTH, DEPTH)
    b_places, _ = _places(b_nodes, present, start, WIDTH, DEPTH)
    own = tl.load(first_pointer + places, mask=inside, other=0.0)
    twin = tl.load(second_pointer + places, mask=inside, other=0.0)

    # Pairs 0 and 4: what Ĥ_i receives is complete after them.
    pull = _pull(pull_pointer, i, size, TILE)
    own_gradient = multiply(pull, twin, -_dragged(drag_pointer, i, own, size, TILE), PRECISION)
    twin_gradient = multiply(tl.trans(pull), own, -_dragged(drag_pointer, 5 * count + i, twin, size, TILE), PRECISION)
    twin_gradient -= _dragged(drag_pointer, 4 * count + i, twin, size, TILE)
    twin_gradient = multiply(_pull(pull_pointer, 4 * count + i, size, TILE), twin, twin_gradient, PRECISION)
    tl.atomic_add(second_gradient_pointer + places, twin_gradient, mask=inside, sem="relaxed")

    # Pair 1.
    other = tl.load(first_pointer + a_places, mask=inside, other=0.0)
    pull = _pull(pull_pointer, count + i, size, TILE)
    own_gradient -= _dragged(drag_pointer, count + i, own, size, TILE)
    own_gradient = multiply(pull, other, own_gradient, PRECISION)
    other_gradient = multiply(tl.trans(pull), own, -_dragged(drag_pointer, 6 * count + i, other, size, TILE), PRECISION)
    tl.atomic_add(first_gradient_pointer + a_places, other_gradient, mask=inside, sem="relaxed")

    # Pair 2.
    other = tl.load(second_pointer + b_places, mask=inside, other=0.0)
    pull = _pull(pull_pointer, 2 * count + i, size, TILE)
    own_gradient -= _dragged(drag_pointer, 2 * count + i, own, size, TILE)
    own_gradient = multiply(pull, other, own_gradient, PRECISION)
    other_gradient = multiply(tl.trans(pull), own, -_dragged(drag_pointer, 7 * count + i, other, size, TILE), PRECISION)
    tl.atomic_add(second_gradient_pointer + b_places, other_gradient, mask=inside, sem="relaxed")

    # Pair 3.
    own_gradient -= _dragged(drag_pointer, 3 * count + i, own, size, TILE)
    own_gradient = multiply(_pull(pull_pointer, 3 * count + i, size, TILE), own, own_gradient, PRECISION)
    tl.atomic_add(first_gradient_pointer + places, own_gradient, mask=inside, sem="relaxed")
