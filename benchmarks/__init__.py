"""Ratios against floors that are measured in the same run; never absolute times."""
