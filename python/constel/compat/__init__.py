"""Compatibility with other emulators."""
