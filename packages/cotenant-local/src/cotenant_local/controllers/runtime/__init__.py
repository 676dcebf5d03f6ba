"""The machinery every controller shares: informers and their cache, the work queue, the loop that runs controllers, the
writer of their plans.

It corresponds to client-go's tools/cache and util/workqueue. Not here: what any one controller decides; only which view
decodes which resource is known.
"""
