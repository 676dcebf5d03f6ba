"""The rules of admission on documents with what is known of the cluster, for the webhook and for `cotenant lint`.

Belongs here: reviews, known facts, merging. Not here: the rules (policy/admission, policy/quota), and how reviews and
facts arrive (services/webhook, services/lint).
"""
