"""An error of the protocol is read by its members and by its texts, also by the one inside its data."""

from __future__ import annotations

from typing import Any

import pytest

from commandprovider.profiles import PROFILES
from commandprovider.told import Problem, Told, read_told
from providerport.port import ProviderFailure
from savant.process.port import Ended

ENDED = Ended(
    verdict="exited",
    exit_status=0,
    signal=None,
    stdout=b"",
    stderr=b"the last words",
    stdout_truncated=False,
    stderr_truncated=False,
    duration_ms=1,
    cpu_ms=1,
    max_rss_bytes=1,
    survivors=0,
    remaining=0,
    level="S0",
    layers=(),
    detail="",
)


@pytest.mark.parametrize(
    ("message", "data", "kind"),
    [
        ("Internal error", {"message": "unexpected status 401 Unauthorized: no", "codex_error_info": "other"}, "auth"),
        ("Internal error", {"message": "exceeded retry limit, last status: 429 Too Many Requests"}, "rate-limited"),
        ("Internal error", {"codex_error_info": "unauthorized"}, "auth"),
        ("401 Unauthorized", None, "auth"),
        ("Internal error", {"message": 7}, "crash"),
        ("Internal error", "401 Unauthorized", "crash"),
    ],
)
def test_an_error_is_read_by_its_members_and_texts(message: str, data: Any, kind: str) -> None:
    """What no rule explains is a crash, with the agent's last words."""
    told = Told(problem=Problem(-32603, message, data))
    with pytest.raises(ProviderFailure) as caught:
        read_told(PROFILES["codex-acp"], told, ENDED)
    assert caught.value.failure_kind == kind
    assert message in caught.value.detail
    assert ("the last words" in caught.value.detail) is (kind == "crash")


def test_the_telling_text_is_shown_to_the_person() -> None:
    """The message inside the data stands beside the one outside."""
    told = Told(problem=Problem(-32603, "Internal error", {"message": "it broke here"}))
    with pytest.raises(ProviderFailure) as caught:
        read_told(PROFILES["codex-acp"], told, ENDED)
    assert "Internal error: it broke here" in caught.value.detail
