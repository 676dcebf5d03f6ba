"""Partitions of the last-level cache and of memory bandwidth, by Linux' resctrl file system."""
