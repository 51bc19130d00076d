"""The gate: quantize, serve, replay, evaluate, decide, report."""
