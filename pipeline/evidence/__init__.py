"""The decision record and its schema."""
