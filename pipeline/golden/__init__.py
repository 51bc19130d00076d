"""Loading and checking golden sets."""
