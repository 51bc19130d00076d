"""``python -m pipeline`` is ``quant-gate``."""

from pipeline.cli import main

main()
