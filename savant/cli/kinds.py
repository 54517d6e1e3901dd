"""The full registry of document kinds: every package's ``DOCUMENTS``."""

from __future__ import annotations

from savant.contracts.registry import Registry


def registry() -> Registry:
    """The registry of this version."""
    import admission.documents as admission
    import candidateapply.documents as candidateapply
    import commandprovider.documents as commandprovider
    import driver.documents as driver
    import evaluator.documents as evaluator
    import providerport.documents as providerport
    import runner.documents as runner
    import savant.identity.documents as identity
    import savant.ledger.documents as ledger
    import savant.process.documents as process
    import synthesis.documents as synthesis

    modules = (
        synthesis,
        providerport,
        runner,
        evaluator,
        admission,
        candidateapply,
        commandprovider,
        driver,
        identity,
        ledger,
        process,
    )
    return Registry(type_ for module in modules for type_ in module.DOCUMENTS)
