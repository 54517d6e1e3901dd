"""O7: the bounded loop from task to receipt.

Owns readiness, the order of owner calls, plan review, savepoints and the run receipt. Never enlarges anything: scope,
budgets, policies and accepted conditions are what they were when the session was sealed.
"""
