"""Accelerators of one machine."""
