"""Who may use how much: the elastic quota tree. Pure; engine/quotas.py brings it the pods of a cluster."""
