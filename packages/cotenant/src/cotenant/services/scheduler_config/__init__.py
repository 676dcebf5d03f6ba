"""A kube-scheduler's configuration file: what it says, and what of it this scheduler honours.

Belongs here: the file's form, its checks, the verdict on each setting. Not here: what carries settings out.
"""
