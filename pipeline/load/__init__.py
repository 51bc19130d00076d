"""Load tests: prompts of golden transcripts, put on both sides in turn by the engine's own `bench serve`."""
