r"""FOSSIL with channels: each way to see a node's surroundings has rows of its own, trusted as far as others agree.

FOSSIL adds two branches, features and structure, under one weight λ. Where one of them is long it drowns the other,
where one of them is noise it dilutes the other, and a graph can be read in more than two ways: by the nodes that a node
points to, by those that point to it, one hop away or two. Here every such way is a channel, all are scaled alike and
stand side by side, and how much each of them counts is found from the graph before anything is trained, without labels.
One set of defaults serves all graphs; there are no recipes.

## Equations

**Channels.** With X the features (N×F), along channel c with operator S_c and h hops:

```
G_c   = PReLU(S_c X W₁ + b₁)                    W₁ is shared by all channels; S_c = I where h = 0
T_c   = unit(PReLU(S_c^(h-1) G_c W₂c + b₂c))      N×D, D = width; no further hop where h < 2
U_c   = unit(S_c^h X V)                         N×K, K = untrained, with nothing trained
```

`unit` divides each row by its length. V are the leading right singular vectors of X, the identity where F ≤ K. The
channels and their operators are those of [propagated features](untrained.md). An undirected graph has `identity`,
`low`, `low2`, `neighbours` and `neighbours2`. A directed one has `identity`, `out`, `out2`, `in` and `in2`: there `low`
would be a mixture of the other three.

**Weights of the channels.** A channel that tells something about the nodes is confirmed by channels that read the graph
in another way; noise is confirmed by nobody. Along each channel a node i has a profile: its similarities, in centred
untrained rows, to M landmarks, itself left out. With ρ the correlation of two profiles, and c' running over all
channels of other operators than that of c, `low` and `low2` among them on every graph:

$$a_{ic} = \operatorname{mean}_{c'}\, \rho\big(p_{ic},\, p_{ic'}\big), \qquad
w_c \propto \max\big(\operatorname{mean}_i a_{ic},\, \varphi_c\big)^{\text{sharpness}}, \qquad \sum_c w_c^2 = 1$$

Hops of one operator do not confirm each other, because they are alike whatever they see. φ is 0.1 for the identity and
0 for others: where nothing confirms anything, the node's own features remain.

**Views.** H = [w_1 T_1, ..., w_C T_C] under dropout of features and edges, and Ĥ the same under fresh dropout. The
cosine of two nodes is then the mean of those along the channels, weighed by w². No view makes neighbours alike that are
not. A node that sees d others along an operator loses each of them with probability q (1 - 1/d), so that who sees
one alone keeps it, and what remains is scaled up to the same mean:

$$q = \min\big(\tfrac12,\, \max(0,\, \operatorname{mean}_i a_{i,\text{identity}})\big)$$

Where surroundings resemble the node, an edge says what other edges and the features say too, and can be left out.

**Loss.** Subgraphs and nodes are contrasted as in [FOSSIL](fossil.md) (Eq. 10 to 13, as released), with subgraphs drawn
along edges of either direction:

$$L = \omega L_{ot} + L_{node}, \qquad \omega = \big(2 \max(0,\, \operatorname{mean}_i a_{i,\text{identity}})\big)^2$$

The transport compares the surroundings of a node. Where they resemble the node itself, as on a citation graph, ω is
about one; where they do not, they have little to say of it, and ω is near zero.

**Vectors.** [w_1 T_1, w_1 U_1, ..., w_C T_C, w_C U_C]: trained rows and, beside them, untrained ones.

## What a node trusts

The share of channel c in what node i trusts is its own weight, squared: that of the formula above with a_ic in place of
the mean over nodes. `fossil embed` prints for each channel its share of a vector and how many nodes trust it most,
`summary.json` keeps the distribution, `embeddings.npz` has an array `channel_NAME` for each, and
`fossil map RUN --colour channel` draws it. In the vectors the weights of the whole graph count. With `weighting=node`
those of the node do, and rows of different nodes are then stretched differently.

## From the equations to the files

| what | file under `src/fossil/` |
|---|---|
| the method from top to bottom | `methods/fossil_channels/method.py` |
| channels and operators | `graph/channels.py` |
| operators on a device, untrained rows | `nn/channel_tensors.py`, `nn/reduction.py` |
| encoder | `nn/channel_encoder.py` |
| agreement and weights | `nn/agreement.py` |
| contrast of subgraphs and nodes | `methods/fossil/contrast.py` |

## Cost

Per epoch, for each of two views. N nodes, E edges, `nnz(X)` non-zero features, H hidden width, C channels of width D.

| part | time | memory |
|---|---|---|
| X W₁ | nnz(X)·H | N·H |
| channels | E·(H + D) for each operator, N·H·D for each channel | N·(H + D) for each |
| transport | as FOSSIL's at width C·D | the same |
| node loss | N²·C·D; v2: (\|S\|·k)²·C·D | N·C·D and two tiles |

Once: M·N·K for the agreement of all nodes, with M of at most 1,024 landmarks, and the singular value decomposition.

On an H200 (TF32) a step takes 0.97 to 1.22 times the time of a step of FOSSIL at the same total width, 1,280, on the
seven graphs of the paper, and as much memory; v2 0.99 to 1.19 times that of FOSSIL v2. Whole trainings took 0.4 s on
Cora (FOSSIL 0.7 s), 1.3 s on Actor (1.5 s) and 9.0 s on PubMed (6.6 s), each with its own number of epochs
(`python benchmarks/channels.py --device cuda --precision tf32 --threads 1`, seed 0, the median of five, records in
`benchmarks/results/channels-step.jsonl`).

`fossil_channels_v2` contrasts the nodes of the sampled subgraphs alone, as FOSSIL v2 does: its losses do not grow with
the graph. With `--sampled` its encoder does not either: a step reads the surroundings of its samples
([how](../guides/how-do-i-embed-a-graph-larger-than-memory.md)).

## What it is worth, and what its parts are worth

[Beside twelve methods and two untrained ones on twelve graphs](../paper/comparison.md), with one set of settings, the
paired difference over ten encoders reaches zero or is in its favour in all but one case: features that nobody trained
are 2.9 ± 1.4 points ahead on Cornell. Its [mean rank](../paper/comparison.md) is 1.3, that of the next, propagated
features, 5.2. On [Planetoid's own split](../paper/public_split.md) and on [ten published
splits](../paper/geom_gcn_splits.md) it can be set beside figures of the literature; there propagated features are
0.3 ± 0.4 ahead on CiteSeer. On [graphs that nothing was tuned
on](../paper/held_out.md), three encoders each, it is second on parts of proteins, 0.7 ± 1.2 points behind its own v2
and 0.9 ± 3.0 ahead of GSC+Cheb, the next; on atoms of molecules, where features alone reach 94.2 %, BGRL and BNLL
are 0.4 ± 0.3 and 0.3 ± 0.2 ahead, which is not significant over all pairs.

[Each part changed or left out](../paper/ablation_channels.md), on twelve graphs with five encoders (on PubMed and
CoAuthor-CS three where neither transport nor dropped edges are concerned):

- The node loss earns its place on ten of twelve graphs (0.3 to 2.8 points), and on none does it cost anything.
- The weights earn theirs on Cora, Actor, Chameleon, Squirrel, Texas and Cornell (0.6 to 17 points). On filtered
  Chameleon equal weights are 3 points better: the labels there follow what the other channels do not confirm. Elsewhere
  equal weights are better by 0.1 to 0.3 points.
- Weights of each node are better than those of the graph on none, and worse on seven graphs, by 0.5 to 5 points.
- The untrained rows earn theirs on Cora, CiteSeer, CoAuthor-CS, Chameleon, Squirrel, Amazon Photo and Texas (0.4 to 9
  points), and cost 0.2 on PubMed.
- Transport between subgraphs, weighed by ω, is worth 0.4 ± 0.1 points on CoAuthor-CS, 0.3 ± 0.2 on PubMed and 0.2 ± 0.1
  on Amazon Photo, the three largest; it costs 0.3 ± 0.2 on filtered Chameleon and 0.1 ± 0.1 on Cora, and cannot be told
  from zero on the other seven. The cosine of means in its place costs 1.8 ± 0.4 points on PubMed and 0.2 to 0.9 on
  Cora, CiteSeer, Actor and Amazon Photo: there it is worse than no comparison of subgraphs. On graphs that leak ω is
  near zero. With ω = 1 in place of 0 trained rows have fewer directions: their effective rank falls from 11.1 to 7.5
  on Chameleon, from 15.6 to 10.1 on filtered Chameleon and from 10.4 to 8.9 on Cora. On Chameleon, trained rows alone
  then lose 0.6 ± 0.3 points where a lookup of neighbour lists finds a test node. It does not pull nodes with one list
  apart: their cosine, less that of any two nodes, is 0.98 in place of 0.99. Of whole vectors no loss can be told,
  0.2 ± 0.2 points (five encoders, three on Cora; `python benchmarks/leaks.py --graphs chameleon --threads 1` and so on,
  on two cores of an AMD EPYC, records in `benchmarks/results/leaks.jsonl`). Squirrel was not measured.
- Dropping edges is worth 0.9 ± 0.2 points on PubMed and 0.2 ± 0.1 on CoAuthor-CS, costs 0.5 ± 0.4 on filtered Squirrel,
  and cannot be told from keeping them on the other nine. Both parts
  [stay](../decisions/0051-transport-and-edge-dropout-stay.md).

How long to train is decided by the size of the graph, 100·(N/3,000)^¾ epochs within 100 and 400, not by a criterion:
[no criterion without labels was better](../decisions/0049-no-criterion-says-when-to-stop.md). That rule and the
temperature were [chosen by validation accuracy](../decisions/0050-a-temperature-and-a-length-for-all-graphs.md), with
what was tried beside them.
"""

from fossil.methods.fossil_channels.method import FossilChannels, FossilChannelsV2
from fossil.methods.fossil_channels.settings import ChannelSettings

__all__ = ["ChannelSettings", "FossilChannels", "FossilChannelsV2"]
