"""HTTP for the API server: routing, authentication, discovery, bodies and responses, mapped to calls of the in-process
API.

Not here: the HTTP server itself (`drivers/http`), and the meaning of the verbs (`verbs`).
"""
