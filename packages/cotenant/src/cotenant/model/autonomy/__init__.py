"""What the parts that act on their own may do: rungs, windows, freezes."""
