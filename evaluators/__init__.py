"""Pure evaluators: (turn, reply) -> outcomes; one per file."""
