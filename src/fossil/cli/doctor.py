"""`fossil doctor`: is everything in place?"""

from __future__ import annotations


def command() -> None:
    """Show versions, devices, optional packages and where data is looked for."""
    import importlib.util
    import os

    import torch

    from fossil.cli.show import plain_console
    from fossil.datasets.fetch import cache_root
    from fossil.training.devices import describe_device, environment, resolve_device

    console = plain_console()
    found = environment(resolve_device("auto"))
    console.print(f"Python {found['python']} on {found['platform']}")
    for package, version in found["versions"].items():
        console.print(f"  {package:18}{version}")
    gpus = [describe_device(torch.device("cuda", i)) for i in range(torch.cuda.device_count())]
    console.print(f"CPU threads: {torch.get_num_threads()}; GPUs: {', '.join(gpus) or 'none'}")
    extras = {
        "tables": "pyarrow", "plot": "matplotlib", "cpu": "numba", "pyg": "torch_geometric", "search": "optuna",
        "anndata": "anndata", "tensorboard": "tensorboard", "mlflow": "mlflow", "wandb": "wandb",
    }  # fmt: skip
    for extra, package in extras.items():
        have = importlib.util.find_spec(package) is not None
        state = "installed" if have else f"missing: pip install 'fossil-gnn[{extra}]'"
        console.print(f"  extra {extra}: {state}")
    console.print(f"FOSSIL_DATA: {os.environ.get('FOSSIL_DATA') or 'not set'}; cache: {cache_root()}")
