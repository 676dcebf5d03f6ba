"""Whole local clusters by their commands. A package, so that the cluster that its cases share ends with the last."""
