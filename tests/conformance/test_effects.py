"""The ports of time, randomness and tasks: what every adapter and every twin does."""

from __future__ import annotations

import itertools
import threading

import pytest

from savant.contracts.effects import Clock, Entropy, Raised, Returned, Tasks
from savant.contracts.errors import UsageError
from savant.contracts.twins import CountingEntropy, FixedClock, InlineTasks
from savant.process.effects import SystemClock, SystemEntropy, ThreadTasks

YEAR_2020_MS = 1_577_836_800_000
LONG_MS = 60_000


@pytest.fixture(params=[FixedClock, SystemClock])
def clock(request: pytest.FixtureRequest) -> Clock:
    made: Clock = request.param()
    return made


@pytest.fixture(params=[CountingEntropy, SystemEntropy])
def entropy(request: pytest.FixtureRequest) -> Entropy:
    made: Entropy = request.param()
    return made


@pytest.fixture(params=[InlineTasks, ThreadTasks])
def tasks(request: pytest.FixtureRequest) -> Tasks:
    made: Tasks = request.param()
    return made


def test_the_wall_clock_counts_milliseconds_of_this_century(clock: Clock) -> None:
    """The unit is milliseconds since 1970, as an integer."""
    now = clock.now_ms()
    assert isinstance(now, int)
    assert YEAR_2020_MS < now < YEAR_2020_MS * 3


def test_the_monotonic_clock_never_goes_backwards(clock: Clock) -> None:
    """Successive readings are in order."""
    readings = [clock.monotonic_ms() for _ in range(1000)]
    assert all(isinstance(reading, int) for reading in readings)
    assert all(a <= b for a, b in itertools.pairwise(readings))


@pytest.mark.parametrize("size", [1, 31, 32, 33, 100])
def test_a_token_has_the_size_that_was_asked_for(entropy: Entropy, size: int) -> None:
    """Exactly so many bytes come."""
    assert len(entropy.token(size)) == size


def test_tokens_do_not_repeat(entropy: Entropy) -> None:
    """A run id is drawn once."""
    assert len({entropy.token(16) for _ in range(1000)}) == 1000


@pytest.mark.parametrize("size", [0, -1])
def test_a_token_of_no_bytes_is_refused(entropy: Entropy, size: int) -> None:
    """An empty token would repeat."""
    with pytest.raises(UsageError) as refused:
        entropy.token(size)
    assert refused.value.code == "usage.token-size"


def test_a_call_that_returns_has_its_value_as_outcome(tasks: Tasks) -> None:
    """The outcome stays what it was, however often and with whatever patience it is asked for."""
    task = tasks.start(lambda: 7)
    assert task.outcome(LONG_MS) == Returned(7)
    assert task.outcome(0) == Returned(7)
    assert task.outcome(-1) == Returned(7)
    assert task.outcome(2**53 - 1) == Returned(7)


@pytest.mark.parametrize("error", [LookupError("x"), SystemExit(3)])
def test_a_call_that_raises_has_its_exception_as_outcome(tasks: Tasks, error: BaseException) -> None:
    """Nothing that a call raises escapes from start, nor is it lost."""

    def call() -> None:
        raise error

    outcome = tasks.start(call).outcome(LONG_MS)
    assert isinstance(outcome, Raised)
    assert outcome.error is error


def test_a_cancellation_is_set_once_and_for_all(tasks: Tasks) -> None:
    """Asking is idempotent, waiting says whether somebody asked, and another cancellation knows nothing of it."""
    asked, other = tasks.cancellation(), tasks.cancellation()
    assert (asked.is_set(), asked.wait(0), asked.wait(-1)) == (False, False, False)
    asked.set()
    asked.set()
    assert (asked.is_set(), asked.wait(0), asked.wait(2**53 - 1)) == (True, True, True)
    assert (other.is_set(), other.wait(0)) == (False, False)


def test_a_call_sees_the_cancellation_that_it_was_given(tasks: Tasks) -> None:
    """A cancelled call can answer that it was."""
    cancellation = tasks.cancellation()
    cancellation.set()
    assert tasks.start(lambda: cancellation.wait(LONG_MS)).outcome(LONG_MS) == Returned(value=True)


def test_a_thread_runs_beside_its_caller_until_it_is_asked_to_stop() -> None:
    """Start does not block, there is no outcome while the call runs, and a cancellation reaches it from outside."""
    tasks = ThreadTasks()
    cancellation = tasks.cancellation()
    task = tasks.start(lambda: (cancellation.wait(LONG_MS), threading.current_thread()))
    assert task.outcome(0) is None
    assert task.outcome(1) is None
    cancellation.set()
    outcome = task.outcome(LONG_MS)
    assert isinstance(outcome, Returned)
    was_asked, thread = outcome.value
    assert was_asked
    assert thread is not threading.current_thread()
    assert thread.daemon
