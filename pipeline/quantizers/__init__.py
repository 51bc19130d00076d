"""How a recipe becomes a candidate checkpoint."""
