"""Doors for users of other emulators."""
