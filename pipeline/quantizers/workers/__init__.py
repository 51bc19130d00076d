"""Scripts that run inside the quantizer environments, never imported by the pipeline."""
