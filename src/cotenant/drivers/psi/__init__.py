"""Pressure stall information: what it says, and being told when it rises."""
