"""The Autonomy objects of a cluster, asked by every mover before it acts."""
