"""Where the scripts beside this file look for published files."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def raw_folder(*names: str) -> Path:
    """Return a folder under $FOSSIL_DATA; end with one message and status 2 where it is not there."""
    folder = Path(os.environ.get("FOSSIL_DATA", "."), *names)
    if folder.is_dir():
        return folder
    where = "" if "FOSSIL_DATA" in os.environ else ", and FOSSIL_DATA is not set"
    print(f"error: there is no folder {folder}{where}.", file=sys.stderr)
    print("remedy: Set FOSSIL_DATA to the folder that has it.", file=sys.stderr)
    raise SystemExit(2)
