"""Model servers whose /metrics are read: which they are (a file, the cluster's pods), and their reading over time.

Not here: what a reading counts for (`engine/traces`), and the forms of servers' pages (`drivers/modelserver`).
"""
