"""``python -P -m savant.cli``: the console script, where it is not installed."""

from __future__ import annotations

from savant.cli.app import main

main()
