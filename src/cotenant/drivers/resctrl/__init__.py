"""Partitions of the last-level cache and of memory bandwidth, through Linux' resctrl file system."""
