"""What real agents wrote, and what it has to be read as: one file for each agent and situation.

``origin`` says whether a file was recorded from the agent itself (by ``record.py``, in the version it names) or
composed from what is known about it, because the situation cannot be had from a model server.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commandprovider.profiles import OUTCOMES, PROFILES
from commandprovider.reading import classify, document_in, read_answer, read_usage
from providerport.port import ProviderFailure
from savant.process.port import Ended

GOLDEN = Path(__file__).resolve().parent / "golden"
FILES = sorted(GOLDEN.glob("*/*.json"))
CASES = [pytest.param(json.loads(path.read_text("utf-8")), id=f"{path.parent.name}-{path.stem}") for path in FILES]
STREAMED = [case for case in CASES if "stdout" in case.values[0]]
REPORTED = [case for case in CASES if "error" in case.values[0]]


def ended_of(golden: dict[str, Any]) -> Ended:
    return Ended(
        verdict=golden["verdict"],
        exit_status=golden["exit_status"],
        signal=golden["signal"],
        stdout=golden["stdout"].encode(),
        stderr=golden["stderr"].encode(),
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


@pytest.mark.parametrize("golden", STREAMED)
def test_what_an_agent_wrote_is_read_as_it_was_meant(golden: dict[str, Any]) -> None:
    """An answer is the text of the model, and a failure has the kind that the situation was made for."""
    profile = PROFILES[golden["agent"]]
    files = {name: text.encode() for name, text in golden["files"].items()}
    expected = golden["expected"]
    ended = ended_of(golden)
    if "kind" in expected:
        with pytest.raises(ProviderFailure) as caught:
            read_answer(profile, golden["capability"], ended, files)
        assert caught.value.failure_kind == expected["kind"], caught.value.detail
        assert caught.value.outcome == OUTCOMES[expected["kind"]]
        assert caught.value.detail.startswith(profile.title)
        return
    said = read_answer(profile, golden["capability"], ended, files)
    assert said.text.strip() == expected["text"].strip()
    for member in ("structured", "tokens_in", "tokens_out", "cached", "cost_microunits"):
        if member in expected:
            assert getattr(said, member) == expected[member], member


@pytest.mark.parametrize("golden", [case for case in STREAMED if case.values[0]["expected"].get("text")])
def test_an_answer_is_never_taken_from_a_broken_envelope(golden: dict[str, Any]) -> None:
    """Half of what was written on the way to a success is no success, although the exit status still is 0."""
    profile = PROFILES[golden["agent"]]
    assert profile.reader is not None
    if profile.reader.form == "text":
        golden = golden | {"stdout": "", "stderr": ""}
    files = {name: text[: len(text) // 2].encode() for name, text in golden["files"].items()}
    half = golden | {"stdout": golden["stdout"][: len(golden["stdout"]) // 2]}
    with pytest.raises(ProviderFailure) as caught:
        read_answer(profile, golden["capability"], ended_of(half), files)
    assert caught.value.failure_kind == "malformed-output"


@pytest.mark.parametrize("golden", [case for case in STREAMED if case.values[0]["expected"].get("text")])
def test_an_answer_with_another_exit_status_is_a_failure(golden: dict[str, Any]) -> None:
    """A well-formed end does not outvote an exit status that says otherwise."""
    profile = PROFILES[golden["agent"]]
    files = {name: text.encode() for name, text in golden["files"].items()}
    with pytest.raises(ProviderFailure) as caught:
        read_answer(profile, golden["capability"], ended_of(golden | {"exit_status": 3}), files)
    assert caught.value.failure_kind == "crash"


@pytest.mark.parametrize("golden", REPORTED)
def test_what_an_agent_reported_by_the_protocol_is_classified(golden: dict[str, Any]) -> None:
    """An error object of the Agent Client Protocol has the kind that its situation was made for."""
    error = golden["error"]
    members = {"code": str(error["code"]), **golden["members"]}
    assert classify(PROFILES[golden["agent"]], error["message"], members) == golden["expected"]["kind"]


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_every_agent_has_golden_files(name: str) -> None:
    """Each profile was looked at: recorded from the tested version, with a success and several failures."""
    own = [case.values[0] for case in CASES if case.values[0]["agent"] == name]
    kinds = {golden["expected"].get("kind") for golden in own}
    assert len(kinds) >= 4, kinds
    assert {golden["origin"] for golden in own} <= {"recorded", "composed"}
    if PROFILES[name].reader is not None:
        assert None in kinds
        recorded = [golden for golden in own if golden["origin"] == "recorded"]
        assert len(recorded) >= 5
        first, after = ([int(part) for part in bound.split(".")] for bound in PROFILES[name].probe.tested)
        assert all(first <= [int(part) for part in golden["version"].split(".")] < after for golden in recorded)


def test_an_agent_edits_where_it_may_and_nowhere_else() -> None:
    """The recorded edits were made in the working directory, and no other situation left anything there."""
    made = {
        (golden["agent"], golden["case"]): golden["made"] for golden in (c.values[0] for c in CASES) if "made" in golden
    }
    for (agent, case), files in made.items():
        assert files == (["made.txt"] if case in {"edit", "command", "submitted"} else []), (agent, case)
    for agent in ("claude", "codex", "gemini", "opencode"):
        assert {(agent, "edit"), (agent, "command"), (agent, "read")} <= set(made)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_golden_file_holds_no_place_of_a_machine(path: Path) -> None:
    """What was recorded on one machine reads the same on every other."""
    text = path.read_text("utf-8")
    assert "/root" not in text
    assert "/home/" not in text.replace("<run>/home/", "")
    assert "/tmp/" not in text.replace("<run>/tmp/", "")


def test_fenced_answers_are_json_and_prose_is_not() -> None:
    """The recorded fence of each agent may be stripped; its prose may not be taken for a document."""
    for case in STREAMED:
        golden = case.values[0]
        if golden["case"] not in {"fenced", "plain", "prose", "schema-ignored"} or "kind" in golden["expected"]:
            continue
        if golden["agent"] == "mini-swe-agent":
            continue
        said = read_answer(PROFILES[golden["agent"]], golden["capability"], ended_of(golden), {})
        if golden["case"] in {"fenced", "plain"}:
            assert json.loads(document_in(said)) == {"status": "done", "summary": "as planned"}
            continue
        with pytest.raises(ProviderFailure) as caught:
            document_in(said)
        assert caught.value.failure_kind == "malformed-output"


def test_usage_is_told_for_failures_too_and_never_made_up() -> None:
    """Tokens of a failed call are counted where the agent says them, and None where it does not."""
    by_name = {(case.values[0]["agent"], case.values[0]["case"]): case.values[0] for case in STREAMED}
    length = by_name["claude", "length"]
    used = read_usage(PROFILES["claude"], ended_of(length), {})
    assert used.tokens_out is not None
    refused = by_name["codex", "status-429"]
    nothing = read_usage(PROFILES["codex"], ended_of(refused), {})
    assert (nothing.tokens_in, nothing.tokens_out, nothing.cost_microunits) == (None, None, None)
