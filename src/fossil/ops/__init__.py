"""Operations on tensors that have a plain and a fast version; nothing here knows graphs, methods or files.

`ops/x.py` has the public function, its plain version in PyTorch, its gradient, and `supports`, which says whether the
fast version takes what it is given. `ops/triton/x.py` is that version for GPUs, `ops/numba/x.py` the one for CPUs:
kernel, launch and constants. Whoever calls an operation does not know which version runs.
"""
