"""O5B: application.

Owns the writing of exactly the admitted bytes into a dedicated target, its journal and recovery, undo, and the
verification record. Never commits, pushes or merges, and never rewrites a receipt.
"""
