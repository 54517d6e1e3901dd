"""O5A: admission.

Owns the composition of the sealed chain, the admission policy and its decision, acknowledgements, and the verification
of a target. Never mutates a receipt, never claims correctness.
"""
