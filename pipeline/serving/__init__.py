"""The engine's process and the client that replays turns through it."""
