"""Reading what an agent left behind: pure, in a fixed order, and never trusting an exit status alone.

The order: the supervisor's verdict, the terminal event, the exit status, standard error. A failure that no rule of the
profile explains is a ``crash``; an exit with status 0 and no well-formed terminal event is ``malformed-output``.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from commandprovider.profiles.model import Capability, Profile
from savant.process.port import Ended


class Said(msgspec.Struct, frozen=True):
    """What an agent said: its answer, and what it reports about itself; None where it does not.

    :param text: the answer as it was written; may be fenced, may be prose.
    :param structured: the answer as JSON text, where the agent itself checked it against a schema.
    :param cost_microunits: millionths of a US dollar, by the agent's own price table.
    """

    text: str
    structured: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cached: int | None = None
    cost_microunits: int | None = None
    session: str | None = None


def read_answer(profile: Profile, capability: Capability, ended: Ended, files: Mapping[str, bytes]) -> Said:
    """The answer of one finished call.

    :param files: what the agent wrote beside its streams; ``answer`` is the file it was told to write.
    :raises ProviderFailure: with outcome and failure kind, for everything that is no answer.
    """
    raise NotImplementedError


def one_json(text: str) -> bytes:
    """The one JSON value in an answer; one fence around it may be stripped.

    :raises ProviderFailure: ``invalid-output``/``malformed-output`` for prose around it, or for no JSON.
    """
    raise NotImplementedError
