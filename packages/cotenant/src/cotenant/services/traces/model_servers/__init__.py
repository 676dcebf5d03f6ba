"""Model servers whose /metrics are read: which they are (a file, the cluster's pods), and their reading over time. What
a reading counts for is the engine's.
"""
