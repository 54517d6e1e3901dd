"""The kernel: canonical bytes, digests, closed documents, envelopes, effect ports and the error tree.

This package owns how a document is written, named and accepted. It never does I/O, reads no clock, draws no random
bytes and knows no stage. Import its modules by name (``from savant.contracts.document import Document``): the
package itself imports nothing, so that whoever needs the errors alone does not load the encoder.
"""

from __future__ import annotations

__all__: tuple[str, ...] = ()
