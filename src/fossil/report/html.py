"""The page itself: one bundle, what it shows beside it, and a policy under which no request leaves."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any

# An empty style element, which the map's lasso makes and fills by script.
_NO_STYLE = "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="


def page(meta: dict[str, Any], arrays: dict[str, Any] | None = None, plans: dict[str, Any] | None = None) -> str:
    """Return the page; without arrays it asks the server that it comes from.

    The policy lets it run the bundle and nothing else, and lets no request leave: scripts and styles are known by their
    hashes. `unsafe-eval` is for regl, which compiles its draw calls; no text of a user comes near them.
    """
    script, style = (files("fossil.report").joinpath("assets", name).read_text() for name in ("page.js", "page.css"))
    served = arrays is None
    source = "served" if served else "embedded"
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}' 'unsafe-eval'",
            f"style-src '{_hash(style)}' '{_NO_STYLE}'",
            "img-src data: blob:",
            "connect-src 'self'" if served else "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    embedded = {"meta": meta} if served else {"meta": meta, "arrays": arrays, "plans": plans or {}}
    blocks = "\n".join(
        f'<script type="application/json" id="{name}">{_json(value)}</script>' for name, value in embedded.items()
    )
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f'<meta name="fossil-source" content="{source}">\n'
        f"<title>fossil report</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<div id="page"><p class="loading">Reading the report …</p>'
        "<noscript>This page is drawn by a script that is part of it; allow scripts for this file.</noscript></div>\n"
        f"{blocks}\n<script>{script}</script>\n</body>\n</html>\n"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _json(value: object) -> str:
    """Return JSON in which no text ends an element, begins a comment or breaks a line of a script."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text.encode("utf-8", "replace").decode()
