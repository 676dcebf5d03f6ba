"""`cotenant up`: a cluster on one machine."""
