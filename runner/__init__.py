"""O3, the runner: from a pinned base and a provider to a sealed candidate.

It owns the snapshot, the candidate workspace, the three digests, the sealed artifact and the runner's receipt. It
computes every digest itself, from manifests, after the workspace was closed; a declared one is compared and never
used. It never touches the repository, never decides what a candidate is worth, and never lets one through that
introduces a hazard. Import its modules by name; the package itself imports nothing.
"""

from __future__ import annotations

__all__: tuple[str, ...] = ()
