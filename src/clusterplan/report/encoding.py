"""Text for streams that cannot show every sign."""

from __future__ import annotations

_IN_ASCII = str.maketrans(
    {
        "├": "|", "└": "`", "│": "|", "─": "-", "━": "-", "×": "x", "÷": "/", "·": "*", "→": "->", "≤": "<=", "≥": ">=",
        "²": "2", "³": "3", "°": "deg ", "–": "-", "—": "-", "…": "...", "µ": "u", "μ": "u", "“": '"', "”": '"',
        "’": "'", "‘": "'", "±": "+-", "≈": "~", "−": "-", "\u00a0": " ",
    }
)  # fmt: skip


def encodable(text: str, encoding: str) -> str:
    """The text with signs that an encoding lacks replaced.

    Examples
    --------
    >>> encodable("├─ 8 × 16", "ascii"), encodable("├─ 8 × 16", "utf-8")
    ('|- 8 x 16', '├─ 8 × 16')
    """
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_IN_ASCII).encode(encoding, "replace").decode(encoding)
    except LookupError:
        return text.translate(_IN_ASCII).encode("ascii", "replace").decode("ascii")
    return text
