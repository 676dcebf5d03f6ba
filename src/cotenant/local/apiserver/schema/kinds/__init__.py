"""Defaults and rules of the built-in kinds, one subject a file."""
