"""One module a stage: declared inputs to one output directory."""
