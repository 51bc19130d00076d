"""Two sides that are there already: checkpoints, serving variants of one, or endpoints that somebody runs."""
