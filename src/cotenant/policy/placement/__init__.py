"""Which node: filters, scores and the profiles that combine them."""
