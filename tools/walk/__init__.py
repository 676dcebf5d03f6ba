"""How many files and rooms a reader passes who follows one thing through the product.

Belongs here: one module for each way (a pod's), and the recorder that they share. Each is run on the product's own
parts, not on a copy of them.
"""
