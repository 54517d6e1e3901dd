"""The recipe provider with real commands in a real copy of a real repository."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from commandprovider import RecipeProvider, ToolHost, recipe_config
from commandprovider.config import accepted_statuses
from commandprovider.recipe import is_about
from providerport.documents import Prior, Request
from providerport.port import Call, ProviderFailure
from runner.workspace import CandidateWorkspace
from savant.contracts.document import Sealed
from savant.contracts.errors import UsageError
from synthesis.documents import Finding

Make = Callable[..., Sealed[Request]]
CallOf = Callable[..., Call]
SH = "/bin/sh"
PATH = "/usr/local/bin:/usr/bin:/bin"


def provider(
    host: ToolHost, *steps: tuple[str, ...], on_failure: tuple[tuple[str, tuple[str, ...]], ...] = ()
) -> RecipeProvider:
    return RecipeProvider(recipe_config(steps, on_failure, search_path=PATH), host)


def prior(*checks: tuple[str, str | None]) -> Prior:
    return Prior(
        plan_review_digest=None,
        attempt_digest=None,
        evaluation_digest=None,
        outcome="completed",
        failure_kind=None,
        findings=tuple(
            Finding(check=check, status="failed", path=path, line=None, message="", excerpt="")
            for check, path in checks
        ),
        review_findings=(),
        dropped=0,
    )


def test_steps_edit_a_copy_and_the_differences_become_the_candidate(
    host: ToolHost, request_for: Make, call_of: CallOf, workspace: CandidateWorkspace
) -> None:
    """Each step runs in the candidate's copy; what it changed is read back, and the repository is not touched."""
    recipe = provider(host, (SH, "-c", "echo three >> a.txt"), (SH, "-c", "mv pkg/b.txt pkg/c.txt"))
    result = recipe.execute(call_of(request_for("generation")))
    assert result.outcome == "completed"
    assert workspace.read(b"a.txt") == b"one\ntwo\nthree\n"
    assert list(workspace.paths()) == [b"a.txt", b"pkg/c.txt"]
    assert workspace.read_base(b"a.txt") == b"one\ntwo\n"


def test_a_failed_check_adds_its_steps_and_names_its_paths(
    host: ToolHost, request_for: Make, call_of: CallOf, workspace: CandidateWorkspace
) -> None:
    """``on_failure`` steps run only when the request's findings name their check, with the paths they name."""
    extra = (("tests", (SH, "-c", 'for f in "$@"; do echo fixed > "$f"; done', "x", "{paths}")),)
    recipe = provider(host, (SH, "-c", "true"), on_failure=extra)
    recipe.execute(call_of(request_for("generation")))
    assert workspace.read(b"pkg/b.txt") == b"bee\n"
    found = prior(("tests:case", "pkg/b.txt"), ("tests", "gone.txt"), ("other", "a.txt"))
    recipe.execute(call_of(request_for("generation", prior=found)))
    assert workspace.read(b"pkg/b.txt") == b"fixed\n"
    assert workspace.read(b"a.txt") == b"one\ntwo\n"


@pytest.mark.parametrize(
    ("step", "outcome", "kind"),
    [
        ((SH, "-c", "exit 3"), "unavailable", "crash"),
        ((SH, "-c", "kill -9 $$"), "unavailable", "crash"),
    ],
)
def test_a_failing_step_is_a_crash(
    host: ToolHost, request_for: Make, call_of: CallOf, step: tuple[str, ...], outcome: str, kind: str
) -> None:
    """A status that is not accepted, or a signal, fails the call and says which step."""
    assert provider(host, (SH, "-c", "true")).execute(call_of(request_for("generation"))).outcome == "completed"
    with pytest.raises(ProviderFailure) as caught:
        provider(host, step).execute(call_of(request_for("generation")))
    assert (caught.value.outcome, caught.value.failure_kind) == (outcome, kind)
    assert SH in caught.value.detail


def test_a_step_past_its_deadline_is_ended_with_its_children(
    host: ToolHost, request_for: Make, call_of: CallOf
) -> None:
    """A deadline ends the step and a background child in a session of its own."""
    call = call_of(request_for("generation", deadline_ms=300))
    with pytest.raises(ProviderFailure) as caught:
        provider(host, (SH, "-c", "setsid sleep 600 & sleep 600")).execute(call)
    assert (caught.value.outcome, caught.value.failure_kind) == ("timed-out", "timeout")
    assert getattr(call.observer, "remaining", None) == 0


def test_a_tool_sees_only_the_allowed_environment(
    host: ToolHost, request_for: Make, call_of: CallOf, workspace: CandidateWorkspace
) -> None:
    """Names that the configuration does not list are not there; HOME is private and gone afterwards."""
    config = recipe_config(
        [(SH, "-c", "echo ${SECRET-none} ${WANTED-none} > a.txt; echo $HOME > home.txt")],
        (),
        search_path=PATH,
        environment=("WANTED",),
    )
    RecipeProvider(config, host).execute(call_of(request_for("generation")))
    assert workspace.read(b"a.txt") == b"none yes\n"
    home = workspace.read(b"home.txt").decode().strip()
    assert home.startswith(str(host.scratch))
    assert not list(host.scratch.iterdir())


def test_a_tool_that_leaves_a_special_file_is_denied(host: ToolHost, request_for: Make, call_of: CallOf) -> None:
    """What may not be sealed is a typed failure of the call."""
    with pytest.raises(ProviderFailure) as caught:
        provider(host, (SH, "-c", "mkfifo pipe")).execute(call_of(request_for("generation")))
    assert (caught.value.outcome, caught.value.failure_kind) == ("invalid-output", "denied")


def test_interpretation_and_plan_are_deterministic(host: ToolHost, request_for: Make, call_of: CallOf) -> None:
    """A recipe interprets nothing and says so; its plan promises the requested scope or the configured one."""
    recipe = provider(host, (SH, "-c", "true"))
    first = recipe.execute(call_of(request_for("interpretation")))
    assert first == recipe.execute(call_of(request_for("interpretation")))
    assert first.interpretation is not None
    assert [limit.source for limit in first.interpretation.limitations] == ["recipe"]
    for scope, pattern in (((), "**"), (("pkg/**",), "pkg/**")):
        plan = recipe.execute(call_of(request_for("planning", scope=scope))).plan
        assert plan is not None
        assert {change.pattern for step in plan.steps for change in step.intended_changes} == {pattern}
        assert all("gitlink-change" not in c.operations for step in plan.steps for c in step.intended_changes)


def test_an_unclaimed_operation_is_not_supported(host: ToolHost, request_for: Make, call_of: CallOf) -> None:
    """A recipe observes nothing."""
    with pytest.raises(ProviderFailure) as caught:
        provider(host, (SH, "-c", "true")).execute(call_of(request_for("review-observation")))
    assert caught.value.outcome == "unsupported-capability"


def test_an_executable_that_changed_during_the_run_is_refused(
    host: ToolHost, request_for: Make, call_of: CallOf, tmp_path: object
) -> None:
    """The executable is hashed once; another one under the same name is not called."""
    tool = host.scratch.parent / "tool"
    tool.write_text(f"#!{sys.executable}\n")
    tool.chmod(0o755)
    recipe = RecipeProvider(recipe_config([(str(tool),)], (), search_path=PATH), host)
    assert recipe.execute(call_of(request_for("generation"))).outcome == "completed"
    tool.write_text(f"#!{sys.executable}\nprint('other')\n")
    with pytest.raises(ProviderFailure, match="changed while the run was on") as caught:
        recipe.execute(call_of(request_for("generation")))
    assert caught.value.failure_kind == "config-error"


def test_a_recipe_without_a_step_or_with_an_unknown_tool_is_a_usage_error() -> None:
    """What cannot be run is refused before anything is."""
    with pytest.raises(UsageError, match="at least one step"):
        recipe_config([], (), search_path=PATH)
    with pytest.raises(UsageError, match="no executable 'no-such-tool'"):
        recipe_config([("no-such-tool",)], (), search_path=PATH)


def test_accepted_statuses_are_a_table() -> None:
    """Fixers that end with 1 when something is left are known by name; everybody else must end with 0."""
    assert accepted_statuses(("/opt/bin/ruff", "check")) == (0, 1)
    assert accepted_statuses(("black",)) == (0,)


@pytest.mark.parametrize(
    ("check", "wanted", "expected"),
    [
        ("pytest", "pytest", True),
        ("pytest:a", "pytest", True),
        ("pytest/a", "pytest", True),
        ("pytest2", "pytest", False),
    ],
)
def test_a_check_is_about_its_cases(check: str, wanted: str, expected: bool) -> None:
    """A finding of one test case counts for the check it belongs to."""
    assert is_about(check, wanted) is expected
