"""One example document of each kind of identity."""

from __future__ import annotations

from savant.contracts.digest import digest
from savant.contracts.document import Document, kind_of
from savant.contracts.scalars import as_set
from savant.identity.closure import closure_identity
from savant.identity.documents import LedgerPin, Pins
from savant.identity.graph import graph_identity
from savant.identity.task import task_identity
from savant.identity.workspace import workspace_identity

COMMIT = "sha1:" + "1" * 40
RECORDS = b"""\
[[record]]
id = "rounding"
kind = "invariant"
text = "Totals are rounded half-even."
applies_to = ["shop/**"]

[[record]]
id = "totals-add-up"
kind = "proof-obligation"
text = "The total is the sum of the lines."
evidence = "pytest"

[[record]]
id = "no-floats"
kind = "proof-obligation"
text = "No amount is a float."
"""


def examples() -> dict[str, Document]:
    """The documents by kind."""
    task = task_identity("Keep the total when the cart is empty.", scope=["shop/", "tests/"], requester="Ada")
    pins = Pins(
        ledgers=as_set(
            LedgerPin(
                repository=f"/home/ada/{name}/.git", ledger=digest(name.encode()), root_keyid="SHA256:" + 43 * "A"
            )
            for name in ("shop", "caf\u00e9")
        ),
        trusted_policies=(digest(b"evaluator policy"),),
    )
    workspace = workspace_identity(
        domain="example.org/shop",
        object_format="sha1",
        base_commit=COMMIT,
        base_tree="sha1:" + "2" * 40,
        base_manifest_digest=digest(b"manifest"),
    )
    documents = (
        workspace.document,
        task.document,
        graph_identity(COMMIT).document,
        closure_identity(task, [(b".savant/records/shop.toml", RECORDS)]).document,
        pins,
    )
    return {kind_of(document): document for document in documents}
