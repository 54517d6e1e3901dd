"""O4: evaluation.

Owns the evaluators, their fresh copies, the comparison of base and candidate, and the composition into one
recommendation. Never decides admission, and never counts a check that did not run as passed.
"""
