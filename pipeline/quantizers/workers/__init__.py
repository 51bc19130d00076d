"""Scripts that run in the quantize environment's own Python; never imported by the control process."""
