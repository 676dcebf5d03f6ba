"""How good a node is: one score a file, each with a plain NumPy form and the compiled form that must equal it."""
