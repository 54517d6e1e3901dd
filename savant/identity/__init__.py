"""Identities: of a workspace, a task, a code graph, a governance closure, and of the keys that sign.

Owns what a session is bound to and the private keys of its roles. Never invents an identity: what was not given is
said to be missing, as a limitation.
"""
