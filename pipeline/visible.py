"""Text from models, files and other machines, made safe to print."""

from __future__ import annotations

import unicodedata

_KEPT = frozenset("\n\t\u200c\u200d")  # the joiners are needed by emoji and by several scripts
_VARIATION_SELECTORS = range(0xE0100, 0xE01F0)  # invisible, and can carry data
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str) -> str:
    """Text with every control, bidirectional, invisible or unpaired character named as ``<U+202E>``.

    What a model wrote may not reorder, hide or steer what a reader (or a terminal) sees; line ends and
    tabs stay. The brackets are mathematical ones, which need no escaping in HTML.
    """
    return text if text.isascii() and text.isprintable() else text.translate(_SHOWN)


class _Shown(dict[int, str]):
    """How a character is shown, worked out once for each that comes up."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        hidden = unicodedata.category(char) in _HIDDEN_CATEGORIES or code in _VARIATION_SELECTORS
        shown = f"\u27e8U+{code:04X}\u27e9" if hidden and char not in _KEPT else char
        return self.setdefault(code, shown)


_SHOWN = _Shown()
