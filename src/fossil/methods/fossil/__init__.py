r"""FOSSIL: two views of every node, and of small subgraphs around them, are trained to agree.

A node has two kinds of information: its features and its place in the graph. One encoder with shared weights reads
both, once with the graph and once with the identity in its place. A gate λ mixes the two for each node. A learnt
generator makes a perturbed second view of the embeddings. Training asks two things of the two views: subgraphs cut at
the same nodes should be close in the fused Gromov-Wasserstein distance, and each node should be closer to its own
second view than to any other node. Sangare, Dunou, Giraldo and Malliaros, *A Fused Gromov-Wasserstein Approach to
Subgraph Contrastive Learning*, TMLR 2025. The systems it is compared with have [pages of their own](index.md).

Equation numbers are counted in the paper's LaTeX source.

## Equations

Encoder (Section 4.2, Eq. 5), two layers with shared weights, `S = I` for features and `S = A` for structure:

```
layer(X, S) = PReLU(S X W + b)
H^f = layer2(act(layer1(X, I)), I)        H^s = layer2(act(layer1(X, A)), A)
```

Generator (Section 4.3), one attention layer g: `Ĥ^f = g(I, H^f)`, `Ĥ^s = g(A, H^s)`. On the identity graph attention
has one term, so the feature side is a linear layer with an activation.

Fusion (Section 4.4, Eq. 6 to 9), with the node's centrality c:

$$\lambda_i = \sigma\big(\psi(H^f_i, H^s_i, c_i)\big), \qquad H_i = H^f_i + \lambda_i H^s_i, \qquad
\hat H_i = \hat H^f_i + \hat\lambda_i \hat H^s_i$$

Subgraphs (Section 4.5): |S| anchors without replacement, around each a set of k nodes found breadth first. Anchors that
cannot fill k nodes are skipped and counted.

Distance (Section 4.6.1, Eq. 1 and 10), with uniform masses. M holds costs between the nodes of two subgraphs, C¹ and C²
costs within each:

$$D = \min_{T} \; \alpha \langle M, T\rangle + (1-\alpha) \sum_{ijkl} |C^1_{ik} - C^2_{jl}|^2 \, T_{ij} T_{kl}$$

Subgraph loss (Eq. 11): binary cross-entropy with `exp(-D / t)` as logit. The pair (G_i, Ĝ_i) has label 1; (G_i, G_a)
and (G_i, Ĝ_b), with a and b other subgraphs, have label 0. Mean over 3|S| pairs.

Node loss (Section 4.6.2, Eq. 12 and 13), s the cosine, symmetrised over the two views:

$$l(h_i, \hat h_i) = -\log \frac{e^{s(h_i, \hat h_i)/\tau}}
{\sum_{j \ne i} e^{s(h_i, h_j)/\tau} + \sum_j e^{s(h_i, \hat h_j)/\tau}}$$

Fusion loss (Section 4.6.3, Eq. 15):

$$L_\theta = \sum_i \lambda_i\, s(h^f_i, h^s_i) + \beta_1 \lVert\lambda\rVert_2
+ \beta_2 \Big|\tfrac1N\textstyle\sum_i \lambda_i - (1-\alpha)\Big|$$

Each epoch is one step. With the released preset, encoder and generator take a step on `L_ot + L_node` with λ held
constant, and the gate takes a step on `L_θ` with the embeddings held constant, on the same forward pass; after the last
epoch it takes one for every ten epochs on passes of its own. With `fusion_pass=second` each of its steps is on a fresh
pass after the encoder's step, as in the released code
([decision 22](../decisions/0022-the-fusion-layer-on-a-shared-pass.md)).

What each preset puts in place of `act`, `S`, `M`, `C¹`, `C²` and `t` is in [the two readings](../paper/readings.md).

## From the paper to the files

| paper | file under `src/fossil/` |
|---|---|
| Section 3.3, Eq. 1, fused distance | `transport/problem.py`, `ops/objective.py` |
| Section 4, the method from top to bottom | `methods/fossil/method.py` |
| Section 4.2, encoder | `nn/encoders.py` |
| Section 4.3, generator | `nn/generators.py` |
| Section 4.4, fusion layer | `nn/fusion.py`, `ops/fusion_gate.py` |
| Section 4.5, subgraphs | `sampling/subgraphs.py`, `ops/subgraphs.py` |
| Section 4.6.1, costs; subgraph loss | `ops/costs.py`, `ops/subgraph_costs.py`; `nn/contrast.py` |
| Section 4.6.2, node loss | `ops/infonce.py` |
| Section 4.6.3, the fusion layer's loss | `ops/fusion_penalty.py` |
| Section 5, splits; probes, intervals | `graph/splits.py`; `evaluation/` |
| Section 5.1, settings and search space | `methods/fossil/settings.py`, `training/trainer.py` |
| released settings per graph | `methods/recipes/fossil.yaml`, `methods/recipes/fossil_v2.yaml` |
| Table 1, graphs | `datasets/catalog.py` |
| Tables 3 to 6, ablations | `methods/fossil/parts.py`; see [the guide](../guides/how-do-i-run-an-ablation.md) |
| Appendix A, Algorithm 1 | `transport/solvers/bapg.py`, `ops/bapg.py` |

## Cost

Per epoch. N nodes, E directed edges, F features, `nnz(X)` their non-zero entries, H hidden width, D embedding width,
|S| subgraphs of k nodes, T solver iterations.

| part | time | memory |
|---|---|---|
| encoder (once more for the gate with `fusion_pass=second`) | nnz(X)·H + E·(H + D) + N·H·D | N·(H + D) |
| generator | N·D² + E·D | N·D + E |
| fusion | N·D | N |
| sampling | the neighbourhoods that are visited | the same |
| costs | 3·\|S\|·k²·D | \|S\|·k·(k + D) |
| transport, envelope gradient | 3·\|S\|·T·k³ | \|S\|·k² |
| transport, unrolled gradient | the same, and a backward pass through every iteration | T·\|S\|·k² |
| node loss, v1 | N²·D | N·D and two tiles |
| node loss, v2 | (\|S\|·k)²·D at most | \|S\|·k·D and two tiles |

The product X W₁ is shared by the two branches. No E×D tensor is kept, and no N×N tensor is ever made
([decision 3](../decisions/0003-node-loss-is-streamed-exactly.md)). Encoding is one encoder pass and the gate.

## v1 against v2

They differ in one setting, `node_contrast`. v1 contrasts every node with all others: time grows with N². v2 takes the
union of the sampled subgraphs, as anchors and as negatives: at most |S|·k nodes, whatever N is. The paper proposes v2
because v1 would need an N×N matrix. Here v1 needs none, so its limit is time and not memory. The encoder still grows
with N and E in both. Each has recipes of its own; the authors tuned them apart.

## What λ does at inference

λ weighs the structure branch: at λ = 0 the vector is `H^f`, a two-layer network of the node's own features; at λ = 1
both branches count alike.

Under the released preset λ tends to 0. The gradient of the fusion loss in λ_i is

```
s(h^f_i, h^s_i)  +  beta_1 · λ_i / ||λ||  ±  beta_2 / N
```

The third term, which should pull the mean towards 1 - α, is divided by N. The second is positive and carries a weight
of up to a million in the recipes. The first is positive where the branches point the same way. So nearly everything
pushes λ down.

In training, structure still gets through. Dropout reaches the logit of λ (`fusion_drop_logit`), which sets λ to exactly
1/2 on a share `fusion_dropout` of the nodes in each step. The encoder therefore learns with the graph, and is used
mostly without it.

`fossil embed` prints λ, `summary.json` keeps it, `embeddings.npz` has it for every node. An example, with one seed:

```bash
fossil embed digits --no-recipe --epochs 60 --set hidden=32 --set width=16 --out runs/whole
```

printed `λ (weight of structure per node): mean below 1e-06, median 0, from 0 to below 1e-06 on 98 % of the nodes;
structure makes up less than 0.01 % of a vector on average`, while the last record of its history has a mean λ in
training mode of 0.145, because of the dropped logits. The recipe of that graph, which this
command leaves out, has other weights (`fusion_l2=0`, `fusion_mean=10000`), and with it the mean λ is 1.

The share of structure in a vector is ||λ h^s|| / (||h^f|| + ||λ h^s||). Where its mean over nodes is below 5 %, a
warning and the `findings` of `summary.json` say so, with the distribution of λ and what to do.

What follows for users: the vectors of new nodes depend on their features, and hardly on their edges, whenever λ is that
small. A lower `fusion_l2` is not sure to change it, because the first term pushes the same way. `encoder=gcn` has no
gate.
"""

from fossil.methods.fossil.method import Fossil, FossilV2
from fossil.methods.fossil.settings import PRESETS, FossilSettings

__all__ = ["PRESETS", "Fossil", "FossilSettings", "FossilV2"]
