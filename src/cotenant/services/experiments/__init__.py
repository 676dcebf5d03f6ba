"""Experiments on this machine's own cgroups that show what the node agent is worth: `cotenant node experiment`."""
