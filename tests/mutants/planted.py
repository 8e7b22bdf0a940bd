"""Faults that a person would make, by name: a piece of text that stands once in its file, and another in its place.

They are planted one at a time (`mutate.py`), and the tests named beside them must notice. A text that no longer stands
once in its file is an error of `make test`, so that this list keeps up with the code.
"""

from __future__ import annotations

from fault import Planted
from planted_guards import GUARDS

RELEASED = "tests/golden/test_fossil_released_loss.py"
PAPER = "tests/golden/test_fossil_paper_step.py"
FOSSIL = "tests/unit/methods/test_fossil.py"
_METHOD = "src/fossil/methods/fossil/method.py"
_CONTRAST = "src/fossil/methods/fossil/contrast.py"
_PARTS = "src/fossil/methods/fossil/parts.py"
_OBJECTIVE = ("tests/unit/ops/test_objective.py", "tests/unit/transport/test_problem.py")
_BAPG = ("tests/unit/ops/test_bapg_iterations.py", "tests/unit/transport/test_bapg.py")
_UNTRAINED = "tests/unit/methods/test_untrained.py"
_CHANNELS = "src/fossil/nn/channel_tensors.py"
_AGREEMENT = "src/fossil/nn/agreement.py"
_WITH_CHANNELS = "src/fossil/methods/fossil_channels/method.py"
_OF_CHANNELS = ("tests/unit/methods/test_fossil_channels.py",)
_COMPARING = ("tests/unit/evaluation/test_evaluate.py", "tests/unit/report/test_scores_table.py")
_SEARCH = ("tests/unit/studies/test_search.py",)
_COMPARISON = ("tests/unit/evaluation/test_comparison.py",)
_STUDY_KEYS = ("tests/unit/studies/test_study_plan.py",)
_STUDY_STORE = ("tests/unit/studies/test_study_store.py",)
_STUDY_RUNS = ("tests/unit/studies/test_study_execute.py",)
_STUDY_TABLES = ("tests/unit/studies/test_study_tables.py",)
_SCORING = ("tests/unit/evaluation/test_node_classification.py", "tests/unit/evaluation/test_evaluate.py")


PLANTED: tuple[Planted, ...] = (
    *GUARDS,
    # FOSSIL: the loss of the fusion layer, the comparison without transport.
    Planted(
        "α for 1 - α in the fusion penalty", _METHOD,
        "alpha=self.feature_weight, l2=l2, mean=mean", "alpha=1 - self.feature_weight, l2=l2, mean=mean",
        (FOSSIL, RELEASED, PAPER),
    ),
    Planted(
        "the second negative of pooled_cosine from another subgraph", _CONTRAST,
        "rows_of(X, pairs.a), rows_of(Y, pairs.a)", "rows_of(X, pairs.a), rows_of(Y, pairs.b)", (FOSSIL,),
    ),
    Planted(
        "the second negative of pooled_cosine an original one", _CONTRAST,
        "rows_of(X, pairs.a), rows_of(Y, pairs.a)", "rows_of(X, pairs.a), rows_of(X, pairs.a)", (FOSSIL,),
    ),
    # FOSSIL to the letter of the paper.
    Planted(
        "Â of raw products", _CONTRAST,
        "exponential_cost(V, V, config.temperature)", "exponential_cost(Y, Y, config.temperature)", (PAPER, FOSSIL),
    ),
    Planted(
        "Â of H", _CONTRAST,
        "exponential_cost(V, V, config.temperature)", "exponential_cost(U, U, config.temperature)", (PAPER, FOSSIL),
    ),
    Planted(
        "feature costs of cosines always", _CONTRAST,
        'first, second = (U, V) if config.cost_similarity == "cosine" else (X, Y)', "first, second = U, V",
        (PAPER, FOSSIL),
    ),
    Planted(
        "τ = 1 in the logit", _CONTRAST,
        "(config.contrast_temperature or config.temperature)", "(config.contrast_temperature or 1.0)",
        (PAPER, FOSSIL),
    ),
    Planted(
        "solver_marginals ignored", _PARTS, "marginals=config.solver_marginals", 'marginals="prescribed"',
        (PAPER, FOSSIL),
    ),
    Planted(
        "solver_constant_terms ignored", _PARTS, "constant_terms=config.solver_constant_terms", "constant_terms=False",
        (PAPER, FOSSIL),
    ),
    Planted(
        "aggregation ignored", _METHOD,
        'if self.config.aggregation == "symmetric":', 'if self.config.aggregation == "none":', (PAPER, FOSSIL),
    ),
    Planted(
        "reach ignored", _METHOD,
        "self.config.subgraph_size, self.config.reach)", "self.config.subgraph_size)", (PAPER, FOSSIL),
    ),
    Planted(
        "structures of the negatives left in place", _CONTRAST,
        "torch.cat([of_second, rows_of(target, a), rows_of(of_second, b)])",
        "torch.cat([of_second, target, of_second])",
        (PAPER, RELEASED),
    ),
    Planted(
        "self loops in the paper's aggregation", _METHOD,
        "symmetric_normalized(graph.adjacency, self_loops=False)",
        "symmetric_normalized(graph.adjacency, self_loops=True)", (PAPER,),
    ),
    Planted(
        "the contrast reaches the gate that is trained apart", "src/fossil/ops/fusion_gate.py",
        "feature, structure = branches.detach().chunk(2)", "feature, structure = branches.chunk(2)",
        (FOSSIL, RELEASED, "tests/unit/ops/test_fusion_gate.py"),
    ),
    Planted(
        "dropped hidden numbers of the gate are not made up for", "src/fossil/ops/fusion_gate.py",
        "torch.where(uniforms >= share, values / (1 - share), 0)", "torch.where(uniforms >= share, values, 0)",
        ("tests/unit/ops/test_fusion_gate.py", "tests/unit/nn/test_fusion.py"),
    ),
    # Other methods' steps.
    Planted(
        "BGRL's view 2 with the probabilities of view 1", "src/fossil/methods/bgrl.py",
        "(config.feature_drop_2, config.edge_drop_2)", "(config.feature_drop_1, config.edge_drop_1)",
        ("tests/unit/methods/test_bgrl.py", "tests/unit/methods/test_bnll.py"),
    ),
    Planted(
        "BGRL's predictions meet the targets of their own view", "src/fossil/methods/bgrl.py",
        "2 - cosine(q_1, y_2).mean() - cosine(q_2, y_1).mean()",
        "2 - cosine(q_1, y_1).mean() - cosine(q_2, y_2).mean()",
        ("tests/unit/methods/test_bgrl.py",),
    ),
    Planted(
        "DSSL's reconstruction reaches the leaking target", "src/fossil/methods/dssl.py",
        "cosine(predicted, links.targets.detach())", "cosine(predicted, links.targets)",
        ("tests/unit/methods/test_dssl.py",),
    ),
    Planted(
        "DSSL's entropy with the wrong sign", "src/fossil/methods/dssl.py",
        '"entropy": (shares', '"entropy": -(shares', ("tests/unit/methods/test_dssl.py",),
    ),
    Planted(
        "Subg-Con's own score where that of the other subgraph belongs", "src/fossil/methods/subgcon.py",
        "margin - own.roll(1, 0) + foreign_summary", "margin - own + foreign_summary",
        ("tests/unit/methods/test_subgcon.py",),
    ),
    Planted(
        "Subg-Con's summaries over empty places too", "src/fossil/methods/subgcon.py",
        "present / present.sum(1, keepdim=True)", "torch.ones_like(present) / present.shape[1]",
        ("tests/unit/methods/test_subgcon.py",),
    ),
    Planted(
        "DGI's summary of the corrupted nodes", "src/fossil/methods/dgi.py",
        "torch.sigmoid(true.mean(0))", "torch.sigmoid(corrupted.mean(0))", ("tests/unit/methods/test_dgi.py",),
    ),
    Planted(
        "GRACE's view 2 with the probabilities of view 1", "src/fossil/methods/grace.py",
        "config.edge_drop_2, config.feature_drop_2", "config.edge_drop_1, config.feature_drop_1",
        ("tests/unit/methods/test_grace.py",),
    ),
    Planted(
        "GRACE contrasts the first view with itself", "src/fossil/methods/grace.py",
        "node_contrast(self.head(first), self.head(second)", "node_contrast(self.head(first), self.head(first)",
        ("tests/unit/methods/test_grace.py",),
    ),
    Planted(
        "GSC's weights of features and structure swapped", "src/fossil/methods/gsc.py",
        "(1 - config.structure_weight) * of_features + config.structure_weight * of_structure",
        "config.structure_weight * of_features + (1 - config.structure_weight) * of_structure",
        ("tests/unit/methods/test_gsc.py",),
    ),
    Planted(
        "GSC's temperatures swapped", "src/fossil/methods/gsc.py",
        "-distances.feature / config.feature_temperature", "-distances.feature / config.structure_temperature",
        ("tests/unit/methods/test_gsc.py",),
    ),
    Planted(
        "MUSE's context weight on the fused contrast", "src/fossil/methods/muse.py",
        "self.config.context_weight * context + self.config.fused_weight * fused",
        "self.config.fused_weight * context + self.config.context_weight * fused",
        ("tests/unit/methods/test_muse.py",),
    ),
    Planted(
        "MUSE's gate drawn to the wrong mean", "src/fossil/methods/muse.py",
        "alpha=1 - config.fusion_target", "alpha=config.fusion_target", ("tests/unit/methods/test_muse.py",),
    ),
    Planted(
        "PolyGCL's filters swapped in the mixture", "src/fossil/methods/polygcl.py",
        "return torch.addcmul(self.low_weight * low, high, self.high_weight)",
        "return torch.addcmul(self.high_weight * low, high, self.low_weight)",
        ("tests/unit/methods/test_polygcl.py",),
    ),
    Planted(
        "BNLL's neighbours pushed away", "src/fossil/methods/bnll.py",
        "neighbours = -((q_1", "neighbours = ((q_1", ("tests/unit/methods/test_bnll.py",),
    ),
    Planted(
        "a twin that moves by the rest of its momentum", "src/fossil/nn/momentum.py",
        "torch._foreach_mul(fast, 1 - momentum)", "torch._foreach_mul(fast, momentum)",
        ("tests/unit/nn/test_momentum.py", "tests/unit/methods/test_bgrl.py"),
    ),
    Planted(
        "FS-GCN learns from the scores of the wrong nodes", "src/fossil/methods/supervised.py",
        "cross_entropy(scores, part.labels)", "cross_entropy(scores.roll(1, 0), part.labels)",
        ("tests/unit/methods/test_supervised.py",),
    ),
    # What nothing is trained for.
    Planted(
        "the nodes that a node points to, and those that point to it, swapped", "src/fossil/graph/channels.py",
        '''"out": row_means,
    "in": lambda adjacency: row_means(sp.csr_array(adjacency.T)),''',
        '''"in": row_means,
    "out": lambda adjacency: row_means(sp.csr_array(adjacency.T)),''',
        ("tests/unit/graph/test_channels.py", _UNTRAINED),
    ),
    Planted(
        "neighbours with the node itself among them", "src/fossil/graph/channels.py",
        "symmetric_normalized(undirected(adjacency), self_loops=False)",
        "symmetric_normalized(undirected(adjacency), self_loops=True)",
        ("tests/unit/graph/test_channels.py", _UNTRAINED),
    ),
    Planted(
        "features propagated a hop too few", _CHANNELS,
        "matmul(propagated) if hop else propagated", "matmul(propagated) if hop > 1 else propagated", (_UNTRAINED,),
    ),
    Planted(
        "propagated rows not of length one", _CHANNELS,
        "rows[:, places[hop]] = unit_vectors(propagated)", "rows[:, places[hop]] = propagated", (_UNTRAINED,),
    ),
    Planted(
        "rows of length one propagated again", _CHANNELS,
        "rows[:, places[hop]] = unit_vectors(propagated)",
        "rows[:, places[hop]] = propagated = unit_vectors(propagated)", (_UNTRAINED,),
    ),
    Planted(
        "singular vectors without subspace iteration", "src/fossil/ops/svd.py",
        "range(iterations if followed < columns else 0)", "range(0)", ("tests/unit/ops/test_svd.py", _UNTRAINED),
    ),
    Planted(
        "the last singular vectors in place of the leading ones", "src/fossil/ops/svd.py",
        "squares.flip(0)[:rank], turn.flip(1)[:, :rank]", "squares[:rank], turn[:, :rank]",
        ("tests/unit/ops/test_svd.py", _UNTRAINED),
    ),
    # FOSSIL with channels.
    Planted(
        "channels of the same operator confirm each other", _AGREEMENT,
        "[[a != b for b in operators] for a in operators]", "[[True for b in operators] for a in operators]",
        ("tests/unit/nn/test_agreement.py",),
    ),
    Planted(
        "a node's likeness to itself counts", _AGREEMENT,
        "mask = (chunk[:, None] != landmarks).to(rows.dtype)",
        "mask = torch.ones(len(chunk), len(landmarks), dtype=rows.dtype, device=rows.device)",
        ("tests/unit/nn/test_agreement.py",),
    ),
    Planted(
        "no floor under the identity", _AGREEMENT, "0.0 if channel.hops else FLOOR", "0.0",
        ("tests/unit/nn/test_agreement.py",),
    ),
    Planted(
        "the mixture of directions is no referee", "src/fossil/graph/channels.py",
        "for name in (_DIRECTED if directed else _UNDIRECTED)",
        "for name in (_DIRECTED if directed else _UNDIRECTED) if not (directed and name.startswith('low'))",
        _OF_CHANNELS,
    ),
    Planted(
        "the second hop of the encoder left out", _CHANNELS, "max(channel.hops - 1, 0)", "0",
        ("tests/unit/nn/test_channel_encoder.py",),
    ),
    Planted(
        "views without the weights of the channels", _WITH_CHANNELS,
        "return (rows * self.weights[:, None]).flatten(1)", "return rows.flatten(1)", _OF_CHANNELS,
    ),
    Planted(
        "runs along other channels in one row", _WITH_CHANNELS,
        "    most_epochs = 400\n", '    most_epochs = 400\n    filled_in = ("channels",)\n',
        ("tests/unit/evaluation/test_evaluate.py",),
    ),
    Planted(
        "both views under one dropout", _WITH_CHANNELS,
        "H, H_hat = self.view(graph, random), self.view(graph, random)",
        "H = H_hat = self.view(graph, random)", _OF_CHANNELS,
    ),
    Planted(
        "neighbours that were drawn stand for themselves alone", "src/fossil/sampling/neighbourhoods.py",
        "values.float() if weight is None else (values * weight).float()", "values.float()",
        ("tests/unit/sampling/test_neighbourhoods.py",),
    ),
    Planted(
        "the length of the sampled λ grows as their sum", "src/fossil/ops/fusion_penalty.py",
        "l2 / times**0.5", "l2",
        ("tests/unit/methods/test_sampled_fossil.py",),
    ),
    Planted(
        "dropped edges of a block by what it holds", _CHANNELS, "return self.degrees[operator]",
        "return self.operators[operator].crow.diff()",
        ("tests/unit/methods/test_sampled_channels.py",),
    ),
    Planted(
        "new nodes in numbers of their own", _WITH_CHANNELS, "scale = self.scale or scale_of(graph)",
        "scale = scale_of(graph)", _OF_CHANNELS,
    ),
    Planted(
        "new nodes in numbers of their own, in parts", _WITH_CHANNELS,
        "self.scale or ordinary_scale(", "ordinary_scale(", _OF_CHANNELS,
    ),
    Planted(
        "the subgraph loss without its weight", _WITH_CHANNELS,
        "return self.subgraph_weight * loss, solution", "return loss, solution", _OF_CHANNELS,
    ),
    Planted(
        "subgraphs along the edges of one direction", _WITH_CHANNELS,
        "SparseMatrix.from_scipy(undirected(graph.adjacency), device)",
        "SparseMatrix.from_scipy(graph.adjacency, device)", _OF_CHANNELS,
    ),
    # Where random numbers come from, and what is said where memory runs out.
    Planted(
        "weights that seed every GPU", "src/fossil/methods/base.py",
        "torch.default_generator.manual_seed(", "torch.manual_seed(",
        ("tests/contracts/test_method_contract.py",),
    ),
    Planted(
        "memory that runs out before the first epoch told as it comes", "src/fossil/training/trainer.py",
        "with lack_of_memory_as(explanation):", "if explanation:", ("tests/unit/training/test_trainer.py",),
    ),
    # Costs and transport.
    Planted(
        "costs lowered by a share of their maximum", "src/fossil/ops/costs.py",
        "low + share * (high - low)", "share * high", ("tests/unit/ops/test_costs.py", RELEASED),
    ),
    Planted(
        "Ĥ of subgraph a where that of b belongs", "src/fossil/ops/subgraph_costs.py",
        "Y.index_select(0, b)", "Y.index_select(0, a)", ("tests/unit/ops/test_subgraph_costs.py", RELEASED),
    ),
    Planted(
        "the gradient of Ĥ_b added to subgraph a", "src/fossil/ops/subgraph_costs.py",
        "for_Y.index_add_(0, b,", "for_Y.index_add_(0, a,", ("tests/unit/ops/test_subgraph_costs.py", RELEASED),
    ),
    Planted(
        "α for 1 - α in the solver's gradient", "src/fossil/ops/bapg.py",
        "(-problem.alpha / rule.step)", "(-(1 - problem.alpha) / rule.step)", _BAPG,
    ),
    Planted(
        "half the product of the structures", "src/fossil/ops/bapg.py",
        "source * (4 * weight), target.mT", "source * (2 * weight), target.mT", _BAPG,
    ),
    Planted(
        "columns scaled to the source masses, as the paper prints it", "src/fossil/ops/bapg.py",
        "rescale(moved, column_mass, log_column_mass, dim=1)",
        "rescale(moved, row_mass.mT, log_row_mass.mT, dim=1)", _BAPG,
    ),
    Planted(
        "the squared costs of the wrong side in the row step", "src/fossil/ops/bapg.py",
        "feature - 2 * weight * along_rows, feature - 2 * weight * along_columns",
        "feature - 2 * weight * along_columns, feature - 2 * weight * along_rows", _BAPG,
    ),
    Planted(
        "the crossed term once", "src/fossil/ops/objective.py", "squared - 2 * crossed", "squared - crossed",
        _OBJECTIVE,
    ),
    Planted(
        "prescribed masses ignored in the value", "src/fossil/ops/objective.py",
        "rows if actual else problem.source_mass", "rows", _OBJECTIVE,
    ),
    Planted(
        "half the gradient in the structures", "src/fossil/ops/objective.py",
        "by_value * (2 * (1 - ctx.alpha))", "by_value * (1 - ctx.alpha)", _OBJECTIVE,
    ),
    Planted(
        "small entries of a plan cut off early", "src/fossil/ops/scaling.py", "_FLOOR = -60.0", "_FLOOR = -6.0",
        ("tests/unit/ops/test_scaling.py", *_BAPG, "tests/unit/transport/test_sinkhorn.py"),
    ),
    Planted(
        "problems stop while they move", "src/fossil/ops/iteration.py", "change > tolerance", "change < tolerance",
        _BAPG,
    ),
    Planted(
        "converged with one marginal met", "src/fossil/transport/solution.py",
        "torch.maximum(self.row_error, self.column_error)", "torch.minimum(self.row_error, self.column_error)",
        ("tests/unit/transport/test_solution.py",),
    ),
    Planted(
        "Sinkhorn without its column potentials", "src/fossil/transport/solvers/sinkhorn.py",
        "rescale(log_kernel + log_columns, row_mass", "rescale(log_kernel, row_mass",
        ("tests/unit/transport/test_sinkhorn.py", "tests/unit/transport/test_feature_solvers.py"),
    ),
    Planted(
        "nested problems linearised once", "src/fossil/transport/solvers/nested.py",
        "cost = constant - _crossed(problem, plan)\n            plan", "cost = constant\n            plan",
        ("tests/unit/transport/test_nested.py",),
    ),
    Planted(
        "a linear step for masses of unequal sums", "src/fossil/transport/linear.py",
        "target_mass = target_mass * (source_mass.sum() / target_mass.sum())", "target_mass = target_mass * 1",
        ("tests/golden/test_conditional_gradient_against_pot.py",),
    ),
    Planted(
        "feasible plans that are not rounded", "src/fossil/transport/solvers/feasible.py",
        "if not self.rounding:", "if self.rounding:", ("tests/unit/transport/test_feasible.py",),
    ),
    # The node loss.
    Planted(
        "both directions in full where their mean belongs", "src/fossil/ops/infonce.py",
        "logarithms.sum() / 2", "logarithms.sum()", ("tests/unit/ops/test_infonce.py",),
    ),
    Planted(
        "the pair's gradient from one's own view", "src/fossil/ops/infonce.py",
        "reversed(unit.chunk(2))", "unit.chunk(2)", ("tests/unit/ops/test_infonce.py",),
    ),
    Planted(
        "short vectors have a direction", "src/fossil/ops/unit.py",
        "wide / torch.where(measured > SHORTEST, measured, 1)[..., None]",
        "wide / measured.clamp_min(1e-12)[..., None]",
        ("tests/unit/ops/test_unit.py", FOSSIL),
    ),
    Planted(
        "negatives that pull", "src/fossil/nn/contrast.py",
        "torch.cat([scores[:positives], -scores[positives:]])", "scores", ("tests/unit/nn/test_contrast.py",),
    ),
    Planted(
        "corrupted nodes that count as real", "src/fossil/nn/discriminators.py",
        "nn.functional.softplus(fake).mean()", "nn.functional.softplus(-fake).mean()",
        ("tests/unit/nn/test_discriminators.py",),
    ),
    # Studies.
    Planted(
        "another seed is the same training", "src/fossil/studies/plan.py",
        '            "seed": config.seed,\n        }',
        "        }",
        _STUDY_KEYS,
    ),
    Planted(
        "another version of a method is the same training", "src/fossil/studies/plan.py",
        '"version": get_method(config.method).version',
        '"version": 1',
        _STUDY_KEYS,
    ),
    Planted(
        "scores against other labels are the same scores", "src/fossil/studies/plan.py",
        '"truth": truth_of(graph, rule)',
        '"truth": ""',
        _STUDY_KEYS,
    ),
    Planted(
        "a cell has two owners", "src/fossil/runs/lock.py",
        "fcntl.LOCK_EX | fcntl.LOCK_NB",
        "fcntl.LOCK_SH | fcntl.LOCK_NB",
        _STUDY_STORE,
    ),
    Planted(
        "a claim on a file that is gone", "src/fossil/runs/lock.py",
        "return os.path.samestat(path.stat(), os.fstat(descriptor))",
        "return True",
        _STUDY_STORE,
    ),
    Planted(
        "scores on fewer splits serve those who want more", "src/fossil/studies/record.py",
        "set(scoring.seeds) <= set(found.seeds)",
        "bool(found.seeds)",
        _STUDY_STORE,
    ),
    Planted(
        "a cell that somebody finished is done again", "src/fossil/studies/work.py",
        "                if options.is_done(store.read(cell.key), cell):", "                if False:",
        _STUDY_RUNS,
    ),
    Planted(
        "what failed is tried again and again", "src/fossil/studies/record.py",
        "return bool(self.failed) or all(",
        "return all(",
        _STUDY_RUNS,
    ),
    Planted(
        "a study reports validation as test", "src/fossil/studies/train.py",
        "accuracies=tuple(one.accuracy for",
        "accuracies=tuple(one.validation_accuracy for",
        _STUDY_RUNS,
    ),
    Planted(
        "a full disk is the failure of a method", "src/fossil/studies/train.py",
        "if isinstance(error, RunError) and isinstance(error.__cause__, OSError):", "if False:",
        _STUDY_RUNS,
    ),
    Planted(
        "a failure takes scores away that were there", "src/fossil/studies/record.py",
        "if one.failed and key in self.scores else one", "if False else one",
        _STUDY_RUNS,
    ),
    Planted(
        "a probe without memory ends a study", "src/fossil/studies/train.py",
        "except Exception as error:  # a probe, too", "except ValueError as error:  # a probe, too",
        _STUDY_RUNS,
    ),
    Planted(
        "scores on a split of its own under another one's seed", "src/fossil/studies/train.py",
        "seeds=tuple(one.seed for one in found),", "seeds=scoring.seeds[: len(found)],",
        _STUDY_RUNS,
    ),
    Planted(
        "of two columns with one training the first alone is scored", "src/fossil/studies/results.py",
        "{(cell.key, cell.scorings): cell for", "{cell.key: cell for",
        _STUDY_RUNS,
    ),
    Planted(
        "what failed for another study is tried again", "src/fossil/studies/work.py",
        "(record.reasons(cell) and", "(any(one.failed for one in record.scores.values()) and",
        _STUDY_RUNS,
    ),
    Planted(
        "a store that another command just made is somebody else's folder", "src/fossil/studies/store.py",
        "            if not is_free:", "            if root.exists() and not _is_empty(root):",
        _STUDY_STORE,
    ),
    Planted(
        "two graphs of a study under one title", "src/fossil/studies/file.py",
        '    refuse_alike(study.columns, "graphs", where)\n', "    pass\n",
        ("tests/unit/studies/test_study_file.py",),
    ),
    Planted(
        "a study trains on samples where memory is short", "src/fossil/studies/plan.py",
        'WHOLE = {"sampled": "never"}', 'WHOLE = {"sampled": "auto"}',
        _STUDY_RUNS,
    ),
    Planted(
        "what is imported is written over by who trains it", "src/fossil/studies/imports.py",
        "        if not mine:", "        if False:",
        ("tests/unit/studies/test_study_imports.py",),
    ),
    Planted(
        "settings above the limits count in the spread", "src/fossil/studies/trials.py",
        "for one in self.complete if one.feasible)", "for one in self.complete)",
        ("tests/unit/studies/test_study_search.py",),
    ),
    Planted(
        "costs are ranked from the greatest", "src/fossil/studies/ranking.py",
        "sign = 1 if quantity in SCORED else -1", "sign = 1",
        _STUDY_TABLES,
    ),
    Planted(
        "searches that go on while their labels are opened", "src/fossil/studies/study_search.py",
        "                result = held.enter_context(at_rest(one.plan, one.folder))",
        "                with at_rest(one.plan, one.folder) as result: pass",
        ("tests/unit/studies/test_study_search.py",),
    ),
    Planted(
        "a study marks those who beat untrained vectors", "src/fossil/studies/places.py",
        "least.interval.low) > 0",
        "least.interval.low) < 0",
        _STUDY_TABLES,
    ),
    Planted(
        "the worse of the untrained rows of a study is to be beaten", "src/fossil/studies/places.py",
        "least = min(differences",
        "least = max(differences",
        _STUDY_TABLES,
    ),
    Planted(
        "differences between encoders of different splits", "src/fossil/studies/results.py",
        "shared = [split for split in own[seed] if split in other[seed]]",
        "shared = [split for split in other[seed] if split in own[seed]][:1]",
        _STUDY_TABLES,
    ),
    Planted(
        "who trains on labels is the best of a study", "src/fossil/studies/places.py",
        " and not results.plan.rows[row].kind.needs_labels", " and True",
        _STUDY_TABLES,
    ),
    Planted(
        "a process killed while it waits ends the study", "src/fossil/studies/pool.py",
        "            if self.idle_deaths[worker.place] >= _DEATHS:", "            if True:",
        ("tests/unit/studies/test_study_at_once.py::test_who_is_killed_while_it_waits_for_others_is_replaced",),
    ),
    Planted(
        "a record is believed whatever is in it", "src/fossil/studies/record.py",
        "return rebuilt(_RECORD, given)", "return cls(**given)",
        _STUDY_STORE,
    ),
    Planted(
        "of equals none is the best", "src/fossil/studies/places.py",
        "rank = 1 + sum(other < value for", "rank = sum(other <= value for",
        _STUDY_TABLES,
    ),
    # Evaluation.
    Planted(
        "who beats untrained vectors is said not to, and the other way round", "src/fossil/evaluation/rows.py",
        "found.interval.low) > 0", "found.interval.low) < 0", _COMPARING,
    ),
    Planted(
        "an interval that reaches below zero beats untrained vectors", "src/fossil/evaluation/rows.py",
        "found.interval.low) > 0", "found.interval.high) > 0", _COMPARING,
    ),
    Planted(
        "the worse of the untrained rows is to be beaten", "src/fossil/evaluation/rows.py",
        "max(self.untrained, key", "min(self.untrained, key", _COMPARING,
    ),
    Planted(
        "the mark beside those who beat untrained vectors", "src/fossil/report/scores.py",
        "if row.beats_untrained is False else", "if row.beats_untrained else",
        ("tests/unit/report/test_scores_table.py",),
    ),
    Planted(
        "rows compared that train on other numbers of nodes per class", "src/fossil/evaluation/evaluate.py",
        "{protocol.rule(known_name(first.graph)).nodes_per_class}", "-", ("tests/unit/evaluation/test_evaluate.py",),
    ),
    Planted(
        "lengths of rows in half precision", "src/fossil/evaluation/subjects.py",
        "scored.vectors.astype(np.float64)", "scored.vectors", ("tests/unit/evaluation/test_outside_vectors.py",),
    ),
    Planted(
        "exported classes among the numbers of a vector", "src/fossil/evaluation/vectors.py",
        'f"label|task_.*|fusion|', 'f"fusion|', ("tests/unit/evaluation/test_outside_vectors.py",),
    ),
    Planted(
        "a column that is the class among the numbers of a vector", "src/fossil/evaluation/vectors.py",
        "    if columns:\n", "    if False:\n", ("tests/unit/evaluation/test_outside_vectors.py",),
    ),
    Planted(
        "a matrix saved by columns read by rows", "src/fossil/readers/npz.py",
        'sp.csr_array(_csr(arrays, "", (columns, rows)).T)', '_csr(arrays, "", (rows, columns))',
        ("tests/unit/readers/test_npz.py",),
    ),
    Planted(
        "any published split in the fingerprint", "src/fossil/runs/config.py",
        'name = getattr(settings, "split", "")', 'name = next(iter(graph.published_splits), "")',
        ("tests/unit/runs/test_config.py",),
    ),
    Planted(
        "any of equal neighbours", "src/fossil/neighbours/base.py",
        "(similarities >= least).sum(axis=1) > k", "(similarities > least).sum(axis=1) > k",
        ("tests/unit/neighbours/test_exact.py",),
    ),
    Planted(
        "weights of little agreement without a length", _AGREEMENT,
        "torch.where(short, (floored / greatest) ** sharpness, powers)", "floored**sharpness",
        ("tests/unit/nn/test_agreement.py",),
    ),
    Planted(
        "a search that tries the best again", "src/fossil/studies/search.py",
        "if plan.settings(chosen) not in tried:", "if True:", _SEARCH,
    ),
    Planted(
        "a search that tries again what has no effect", "src/fossil/studies/search.py",
        "if plan.settings(chosen) not in tried:", "if chosen not in [one.chosen for one in found.trials]:", _SEARCH,
    ),
    Planted(
        "rows on other published splits compared", "src/fossil/evaluation/evaluate.py",
        "if protocol.split in PUBLISHED:", "if False:", _SCORING,
    ),
    Planted(
        "the first published split whatever the seed", "src/fossil/graph/splits.py",
        "seed % len(self._of(published)) if", "0 * len(self._of(published)) if",
        ("tests/unit/graph/test_published.py",),
    ),
    Planted(
        "numbers with a comma as categories", "src/fossil/readers/planning.py",
        "if 2 * len(others) > len(categories):", "if False:",
        ("tests/unit/readers/test_encoding.py", "tests/unit/readers/large/test_conversion.py"),
    ),
    Planted(
        "classes in an order that is left to chance", "src/fossil/graph/assemble.py",
        "return (1, 0.0, text) if math.isnan(number) else (0, number, text)", "return (0, number, text)",
        ("tests/unit/graph/test_assemble.py",),
    ),
    Planted(
        "published splits that lost a node", "src/fossil/graph/assemble.py",
        "!= NOWHERE).any(axis=0)", "!= NOWHERE).all(axis=0)", ("tests/unit/graph/test_published.py",),
    ),
    Planted(
        "published validation nodes read as test nodes", "src/fossil/graph/published.py",
        "zip((TRAINING, VALIDATION, TEST), masks", "zip((TRAINING, TEST, VALIDATION), masks",
        ("tests/unit/graph/test_published.py",),
    ),
    Planted(
        "a lookup among the test nodes", "src/fossil/evaluation/audit.py",
        "train = split.train[groups[split.train] >= 0]", "train = split.test[groups[split.test] >= 0]",
        ("tests/unit/evaluation/test_audit.py",),
    ),
    Planted(
        "validation reported as test", "src/fossil/evaluation/tasks/node_classification.py",
        "accuracy=float(test[best])", "accuracy=float(validation[best])", _SCORING,
    ),
    Planted(
        "the best candidate chosen by test nodes", "src/fossil/evaluation/tasks/node_classification.py",
        "accuracy=float(test[best])", "accuracy=float(test.max())", _SCORING,
    ),
    Planted(
        "training nodes among the validation nodes", "src/fossil/graph/splits.py",
        "return nodes[~np.isin(nodes, removed)]", "return nodes", ("tests/unit/graph/test_splits.py",),
    ),
    Planted(
        "the penalty of logistic regression inverted", "src/fossil/evaluation/probes/newton.py",
        "now = replace(problems, penalty=problems.penalty / strength)",
        "now = replace(problems, penalty=problems.penalty * strength)",
        ("tests/golden/test_probe_against_sklearn.py", "tests/unit/evaluation/test_logistic_probe.py"),
    ),
    Planted(
        "two classes penalised like three", "src/fossil/evaluation/probes/logistic.py",
        "torch.where(seen.sum(dim=(1, 2)) == 2, 2.0, 1.0)", "torch.where(seen.sum(dim=(1, 2)) == 2, 1.0, 1.0)",
        ("tests/golden/test_probe_against_sklearn.py",),
    ),
    Planted(
        "a degree of freedom too many", "src/fossil/evaluation/statistics.py", "stdtrit(n - 1,", "stdtrit(n,",
        ("tests/unit/evaluation/test_statistics.py",),
    ),
    Planted(
        "an interval of two values", "src/fossil/evaluation/statistics.py",
        "FEWEST_FOR_AN_INTERVAL = 3", "FEWEST_FOR_AN_INTERVAL = 2", ("tests/unit/evaluation/test_statistics.py",),
    ),
    Planted(
        "the majority of the test nodes", "src/fossil/evaluation/tasks/node_classification.py",
        "np.bincount(labels[split.train]).argmax()", "np.bincount(labels[split.test]).argmax()",
        ("tests/unit/evaluation/test_node_classification.py", "tests/unit/evaluation/test_evaluate.py"),
    ),
    Planted(
        "rows of length one left as they are", "src/fossil/evaluation/probes/fitting.py",
        "unit = embedding / np.where(lengths > 0, lengths, 1)", "unit = embedding",
        ("tests/unit/evaluation/test_node_classification.py",),
    ),
    Planted(
        "a column that tells one class alone refused", "src/fossil/evaluation/leaks.py",
        "(lowest == highest).all(axis=0)", "(lowest == highest).any(axis=0)", ("tests/unit/evaluation/test_leaks.py",),
    ),
    Planted(
        "every rank drops edges by numbers of its own", _CHANNELS,
        "return self.whole.uniforms(operator, random)[self.entries[operator]]",
        "return super().uniforms(operator, random)",
        ("tests/unit/methods/test_sampled_channels.py",),
    ),
    Planted(
        "every rank drops features by numbers of its own", "src/fossil/ops/features.py",
        "return self.whole.dropout(probability, random).take(self.rows)", "return super().dropout(probability, random)",
        ("tests/unit/methods/test_sampled_fossil.py",),
    ),
    Planted(
        "a part of a block with the first entries in place of its own", "src/fossil/sampling/neighbourhoods.py",
        "operator.values[entries]", "operator.values[: len(entries)]", ("tests/unit/sampling/test_neighbourhoods.py",),
    ),
    Planted(
        "every rank encodes all targets of a block", "src/fossil/nn/tensors.py",
        "[group.share(num_targets)]", "[:]", ("tests/unit/methods/test_sampled_fossil.py",),
    ),
    Planted(
        "the share of structure without lambda", "src/fossil/nn/fusion.py",
        "weighted = fusion.flatten() * structure", "weighted = structure", ("tests/unit/nn/test_fusion.py",),
    ),
    Planted(
        "edges that are used called ignored", "src/fossil/runs/summary.py",
        '["mean"] < _IGNORED', '["mean"] > _IGNORED', ("tests/unit/runs/test_summary.py",),
    ),
    Planted(
        "the labels of test nodes left in a sealed graph", "src/fossil/studies/sealed.py",
        "left[tests[0]] = -1", "left[tests[0]] = left[tests[0]]", ("tests/unit/studies/test_sealed.py",),
    ),
    Planted(
        "a search told the labels of all nodes by its hash", "src/fossil/studies/sealed.py",
        "return SealedGraph(replace(sealed, published_splits={}), protocol, splits)",
        "return SealedGraph(replace(graph, published_splits={}), protocol, splits)",
        ("tests/unit/studies/test_sealed.py",),
    ),
    Planted(
        "a trial that was under way forgotten", "src/fossil/studies/search.py",
        "under_way = [one for one in unfinished if one.state is optuna.trial.TrialState.RUNNING]", "under_way = []",
        _SEARCH,
    ),
    Planted(
        "encoders of a trial that were done trained again", "src/fossil/studies/search.py",
        'values, usage = list(kept.get("values", [])), Usage.read(kept)', "values, usage = [], Usage.read(kept)",
        _SEARCH,
    ),
    Planted(
        "proposals that depend on when the search was begun", "src/fossil/studies/search.py",
        'seed = derive(plan.seed, "search", len(tried), draft) % 2**32', "seed = None", _SEARCH,
    ),
    Planted(
        "the best trial taken from those over the limits", "src/fossil/studies/trials.py",
        "for one in self.complete if one.feasible]", "for one in self.complete]",
        ("tests/unit/studies/test_search.py::test_what_takes_too_long_is_never_the_best",),
    ),
    Planted(
        "settings searched on after a look at test labels", "src/fossil/studies/search.py",
        "if Openings(out).all:", "if False:", _SEARCH,
    ),
    Planted(
        "frozen settings scored with the seeds that chose them", "src/fossil/studies/freeze.py",
        "seeds = range(plan.encoders, plan.encoders + encoders)", "seeds = range(encoders)", _SEARCH,
    ),
    Planted(
        "Holm's correction with the factor of the last", "src/fossil/evaluation/comparison.py",
        "np.arange(len(p), 0, -1)", "np.arange(1, len(p) + 1)", _COMPARISON,
    ),
    Planted(
        "Holm's correction without its running maximum", "src/fossil/evaluation/comparison.py",
        "np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))", "p[order] * np.arange(len(p), 0, -1)",
        _COMPARISON,
    ),
    Planted(
        "letters of groups that others contain", "src/fossil/evaluation/comparison.py",
        "columns = [one for one in unique if not any(one < other for other in unique)]", "columns = unique",
        _COMPARISON,
    ),
    Planted(
        "ranks from the worst", "src/fossil/evaluation/comparison.py",
        "rankdata(-table, axis=0)", "rankdata(table, axis=0)", _COMPARISON,
    ),
    Planted(
        "a bootstrap of ten encoders", "src/fossil/evaluation/comparison.py",
        "return t_p(sample) if len(sample) < FEWEST_FOR_THE_BOOTSTRAP else", "return", _COMPARISON,
    ),
)  # fmt: skip
