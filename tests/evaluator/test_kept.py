"""What the base gave in an earlier run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from evaluator.checks.place import CommandHost
from evaluator.documents import EvaluatorConfig
from evaluator.kept import result_key
from evaluator.stage import EvaluationOutcome, evaluate
from evaluator.toolchain import Toolchain
from savant.store.results import KeptResults
from tests.evaluator.kit import SEARCH, Bench, bench, config_of, policy_of


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path, {"word": "good"}) as one:
        if one.processes.level == "S0":
            pytest.skip("without containment nothing is kept")
        yield one


def counting(script: str = "exit 0", **changes: object) -> EvaluatorConfig:
    plain: dict[str, object] = {"result_format": "exit-status", "report_path": None}
    return config_of("check", rule="no-regression", argv=("sh", "-c", script), **{**plain, **changes})


def told(lines: list[str]) -> int:
    return sum("from an earlier run" in line for line in lines)


class Runs:
    """Runs of one check on one base, each a run of its own with the results that earlier ones kept."""

    def __init__(self, project: Bench, config: EvaluatorConfig, **changes: object) -> None:
        self.project, self.config = project, config
        self.results = KeptResults(project.scratch.parent / "results")
        self.changes = changes
        self.lines: list[str] = []

    def host(self) -> CommandHost:
        host = replace(self.project.host(), results=self.results, say=self.lines.append)
        return replace(host, **self.changes)

    def run(self, changes: Mapping[str, str | None], *, cached: bool = True) -> EvaluationOutcome:
        host = self.host() if cached else replace(self.host(), results=None)
        return evaluate(self.project.inputs(changes, policy_of(self.config)), host, {})


def commands(project: Bench, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that run from here on."""
    ran: list[str] = []
    run = type(project.processes).run

    def counted(self: object, command: object, cancellation: object = None) -> object:
        ran.append(str(command))
        return run(self, command, cancellation)  # type: ignore[arg-type]

    monkeypatch.setattr(type(project.processes), "run", counted)
    return ran


def test_the_second_run_of_a_base_costs_no_measurement(project: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run measures base and candidate, the second only its candidate; the documents are the same bytes."""
    runs = Runs(project, counting())
    ran = commands(project, monkeypatch)
    first = runs.run({"new": "x"})
    assert (len(ran), told(runs.lines)) == (2, 0)
    second = runs.run({"new": "x"})
    assert (len(ran), told(runs.lines)) == (3, 1)
    plain = runs.run({"new": "x"}, cached=False)
    assert len(ran) == 5
    assert [d.raw for d in first.documents] == [d.raw for d in second.documents] == [d.raw for d in plain.documents]
    assert first.receipt.raw == second.receipt.raw == plain.receipt.raw


def test_a_kept_result_never_decides(project: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A red result of another day does not excuse a candidate that breaks the base: the base is measured anew."""
    runs = Runs(project, counting("grep -q good word"))
    green = evaluate(project.inputs({"new": "x"}, policy_of(runs.config)), replace(runs.host(), results=None), {})
    assert green.evaluation is not None
    assert green.evaluation.document.recommendation == "accept"
    runs.run({"new": "x"})
    key = result_key(runs.config, project.snapshot.manifest.digest, runs.host())
    assert key is not None
    kept = runs.results.get(key)
    assert kept is not None
    assert b'"passed"' in kept
    runs.results.put(key, kept.replace(b'"passed"', b'"failed"'))
    ran = commands(project, monkeypatch)
    broken = runs.run({"word": "bad"})
    assert len(ran) == 2
    assert broken.evaluation is not None
    assert broken.evaluation.document.recommendation == "retry-generation"
    anew = runs.results.get(key)
    assert anew is not None
    assert b'"passed"' in anew


def test_a_damaged_result_is_measured_again(project: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that is no result, though whole, costs a measurement and nothing else."""
    runs = Runs(project, counting())
    runs.run({"new": "x"})
    key = result_key(runs.config, project.snapshot.manifest.digest, runs.host())
    assert key is not None
    ran = commands(project, monkeypatch)
    for body in (b"", b"{}", b'{"outcome":"completed","cases":{"check":{"status":"great"}}}'):
        runs.results.put(key, body)
        runs.run({"new": "x"})
    assert (len(ran), told(runs.lines)) == (6, 0)


def test_a_base_that_did_not_run_is_not_kept(project: Bench) -> None:
    """What did not end by itself is no result of a base."""
    runs = Runs(project, counting("kill -9 $$"))
    runs.run({"new": "x"})
    runs.run({"new": "x"})
    assert told(runs.lines) == 0
    assert not list(runs.results._folder.glob("*"))


def test_the_key_has_everything_in_it(project: Bench, tmp_path: Path) -> None:
    """Another configuration, tree, environment, tool, toolchain or sight is another key; an open network is none."""
    config, tree, host = counting(), "blake3:" + "0" * 64, project.host()
    tools = tmp_path / "tools"
    tools.mkdir()
    moved = Toolchain(project.checkout, (), (tools, *SEARCH))
    first = result_key(config, tree, host)
    others = [
        result_key(replace(config, timeout_ms=1), tree, host),
        result_key(replace(config, argv=("true",)), tree, host),
        result_key(config, "blake3:" + "1" * 64, host),
        result_key(config, tree, project.host(ambient={"NAME": "a"})),
        result_key(config, tree, project.host(ambient={"NAME": "b"})),
        result_key(config, tree, replace(host, toolchain=moved)),
        result_key(config, tree, replace(host, sight=replace(host.sight, read_only=(tools,)))),
        result_key(config, tree, replace(host, toolchain=Toolchain(project.checkout, (".venv",), SEARCH))),
    ]
    (tools / "installed").write_text("")
    others.append(result_key(config, tree, replace(host, toolchain=moved)))
    assert first == result_key(config, tree, host)
    assert None not in others
    assert len({first, *others}) == len(others) + 1
    assert result_key(config, tree, replace(host, network=True)) is None
    assert result_key(replace(config, argv=("no-such-tool",)), tree, host) is None


def test_without_containment_nothing_is_kept(tmp_path: Path) -> None:
    """Where a command could write into the folder of results, there is no key."""
    with bench(tmp_path, {"word": "good"}, "S0") as one:
        assert result_key(counting(), "blake3:" + "0" * 64, one.host()) is None
