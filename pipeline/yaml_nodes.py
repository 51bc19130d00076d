"""Values of YAML that has been read as nodes, for their lines: PyYAML would read it a second time."""

from __future__ import annotations

from typing import Any

import yaml


def values(node: yaml.Node | None) -> Any:
    """The values of a composed document; None where it is empty. Writes merged mappings (``<<``) out in ``node``.

    :raises yaml.YAMLError: an unknown tag, or a key that is no scalar.
    :raises ValueError: an impossible date.
    """
    return None if node is None else yaml.constructor.SafeConstructor().construct_document(node)
