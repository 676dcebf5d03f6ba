"""The real world, one folder each."""
