"""The kinds of resource.k8s.io: defaults and rules of requests, classes, slices and allocations; what a pod says of its
claims.

Not here: who may ask for admin access (the kind's behaviour).
"""
