"""Pressure stall information (PSI): parsing of its files, and triggers that fire when it rises."""
