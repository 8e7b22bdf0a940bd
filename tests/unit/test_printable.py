from __future__ import annotations

import sys
import unicodedata

import pytest

from fossil.printable import DEGRADE, printable


def test_every_sign_is_shown_or_escaped() -> None:
    acting = {chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in ("Cc", "Cs")}
    acting |= set("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u061c\u2028\u2029\ufeff\u00ad")
    for sign in acting:
        shown = printable(sign)
        assert shown.isascii() and shown.isprintable() and shown.encode().decode("unicode_escape") == sign


@pytest.mark.parametrize(
    "text", ["", "plain", "Zoë Łukasz Ōta 東京 العربية नमस्ते", "می‌خواهم", "👩‍🔬", "a\u00a0b", "[red]"]
)
def test_what_is_only_text_stays(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1", "cp437", "utf-8"])
def test_every_text_can_be_written_in_every_encoding(encoding: str) -> None:
    text = "λ = 0.5 ± 0.1 → Łódź, 東京, 👩\ud800"
    written = text.encode(encoding, DEGRADE).decode(encoding)
    assert written.startswith("λ =" if encoding == "utf-8" else "lambda =") and "\\ud800" in written
    assert "東京" in written or "\\u6771\\u4eac" in written


def test_only_writing_is_mended() -> None:
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("ascii", DEGRADE)
