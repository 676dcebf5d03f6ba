"""One node's CPU as a controlled plant: groups, their knobs and counters, in virtual time, for the same agent that runs on real nodes."""
