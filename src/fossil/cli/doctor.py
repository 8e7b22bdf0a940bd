"""`fossil doctor`: is everything in place?"""

from __future__ import annotations

import re
from importlib import metadata

_FOR_DEVELOPERS = ("docs", "test", "dev")


def command() -> None:
    """Show versions, devices, optional packages and where data is looked for."""
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
    for extra, packages in extras().items():
        console.print(f"  extra {extra}: {_state(extra, packages)}")
    console.print(f"FOSSIL_DATA: {os.environ.get('FOSSIL_DATA') or 'not set'}; cache: {cache_root()}")


def extras() -> dict[str, list[str]]:
    """Return the extras of this package and what each asks for; none where it is not installed as a package."""
    try:
        about = metadata.distribution("fossil-gnn")
    except metadata.PackageNotFoundError:
        return {}
    found: dict[str, list[str]] = {}
    for requirement in about.requires or ():
        of_extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        if of_extra and of_extra[1] not in _FOR_DEVELOPERS:
            found.setdefault(of_extra[1], []).append(re.split(r"[^\w.-]", requirement)[0])
    return found


def _state(extra: str, packages: list[str]) -> str:
    """Return the versions of an extra's packages, or how to install it where one is missing."""
    versions = {package: _version(package) for package in packages}
    missing = [package for package, version in versions.items() if version is None]
    if missing:
        return f"{', '.join(missing)} missing: pip install 'fossil-gnn[{extra}]'"
    return ", ".join(f"{package} {version}" for package, version in versions.items())


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
