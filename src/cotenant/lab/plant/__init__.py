"""One node's CPU as a plant to be controlled: groups, their knobs and counters, in virtual time, for the same agent that runs on real nodes."""
