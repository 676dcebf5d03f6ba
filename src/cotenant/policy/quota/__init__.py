"""Who may use how much: the elastic quota tree. Pure; engine/plugins/quotas/plugin.py brings it the pods of a cluster."""
