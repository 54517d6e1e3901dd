"""The system call filter, run by an interpreter of classic BPF for every architecture."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from savant.contracts.errors import UsageError
from savant.process.seccomp import (
    AF_INET,
    AF_INET6,
    AF_NETLINK,
    AF_UNIX,
    ENOSYS,
    EPERM,
    EXAMINED,
    MACHINES,
    program,
)

ALLOW = 0x7FFF0000
KILL = 0x80000000
ALL = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)
NEW_USER = 0x10000000
MOST_INSTRUCTIONS = 4096  # of the kernel

words = st.integers(0, 2**32 - 1)


def run(code: bytes, number: int, arguments: tuple[int, ...] = (), architecture: int = 0) -> int:
    """What a filter says about a call; jumps only go forward, so it ends."""
    given = [*arguments, *(0 for _ in range(6 - len(arguments)))]
    data = struct.pack("<IIQ6Q", number, architecture, 0, *given)
    instructions = list(struct.iter_unpack("<HBBI", code))
    accumulator, at = 0, 0
    while True:
        kind, if_true, if_false, value = instructions[at]
        at += 1
        match kind:
            case 0x20:
                accumulator = struct.unpack_from("<I", data, value)[0]
            case 0x15:
                at += if_true if accumulator == value else if_false
            case 0x35:
                at += if_true if accumulator >= value else if_false
            case 0x45:
                at += if_true if accumulator & value else if_false
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(f"unknown instruction {kind:#x}")


def fails(number: int) -> int:
    return 0x00050000 | number


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def ask(machine: str, name: str, *arguments: int, families: tuple[int, ...] = ALL) -> int:
    known = MACHINES[machine]
    return run(program(machine, families=families), known.numbers[name], arguments, known.audit)


def test_what_is_named_fails_and_everything_else_passes(machine: str) -> None:
    """Every denied call fails with EPERM, and every number that the table does not name passes."""
    known = MACHINES[machine]
    code = program(machine, families=ALL)
    denied = {known.numbers[name] for name in known.numbers.keys() - EXAMINED}
    for number in range(600):
        if number not in {known.numbers[name] for name in EXAMINED}:
            assert run(code, number, (), known.audit) == (fails(EPERM) if number in denied else ALLOW)
    assert len(code) // 8 <= MOST_INSTRUCTIONS


@given(words.filter(lambda word: word not in {known.audit for known in MACHINES.values()}), words)
def test_another_architecture_ends_the_program(architecture: int, number: int) -> None:
    """Numbers of another architecture mean something else, so none of them is looked at."""
    for machine in MACHINES:
        assert run(program(machine, families=ALL), number, (), architecture) == KILL


def test_the_second_table_is_shut() -> None:
    """The numbers of x32 fail on x86-64 as if the kernel had none."""
    code = program("x86_64", families=ALL)
    for number in (0x40000000, 0x40000000 | 39, 0xFFFFFFFF):
        assert run(code, number, (), MACHINES["x86_64"].audit) == fails(ENOSYS)


@given(st.integers(0, 2**32 - 1), words)
def test_high_bits_hide_nothing(high: int, low: int) -> None:
    """An argument that the kernel takes as 32 bits is looked at as 32 bits."""
    for machine in MACHINES:
        for name, arguments in (
            ("socket", (low,)),
            ("ioctl", (0, low)),
            ("clone", (low,)),
            ("unshare", (low,)),
            ("prlimit64", (low,)),
        ):
            lifted = tuple(high << 32 | argument for argument in arguments)
            assert ask(machine, name, *lifted) == ask(machine, name, *arguments)


@given(words)
def test_new_namespaces_are_denied(flags: int) -> None:
    """Neither clone nor unshare makes one; clone keeps its exit signal, which shares a bit with one of unshare's."""
    mask = 0x7E020000
    for machine in MACHINES:
        assert ask(machine, "clone", flags) == (fails(EPERM) if flags & mask else ALLOW)
        assert ask(machine, "unshare", flags) == (fails(EPERM) if flags & (mask | 0x80) else ALLOW)
        assert ask(machine, "clone3", flags) == fails(ENOSYS)
    assert NEW_USER & mask


def test_input_is_not_pushed_into_terminals(machine: str) -> None:
    """The two requests that put words into a terminal's mouth fail; others pass."""
    assert ask(machine, "ioctl", 0, 0x5412) == ask(machine, "ioctl", 0, 0x541C) == fails(EPERM)
    assert ask(machine, "ioctl", 0, 0x5413) == ask(machine, "ioctl", 0x5412, 0) == ALLOW


def test_limits_are_its_own(machine: str) -> None:
    """A process may change its own limits and nobody else's."""
    assert ask(machine, "prlimit64", 0) == ALLOW
    assert ask(machine, "prlimit64", 1) == fails(EPERM)


@given(st.sets(st.sampled_from(ALL)), st.integers(0, 50), st.integers(0, 30))
def test_sockets_are_of_the_given_families(families: set[int], family: int, protocol: int) -> None:
    """Only the given families, and of netlink the routes only; a pair is always of UNIX sockets."""
    for machine in MACHINES:
        allowed = family in families and (family != AF_NETLINK or protocol == 0)
        found = ask(machine, "socket", family, 1, protocol, families=tuple(families))
        assert found == (ALLOW if allowed else fails(EPERM))
        pair = ask(machine, "socketpair", family, 1, 0, families=tuple(families))
        assert pair == (ALLOW if family == AF_UNIX else fails(EPERM))


def test_an_unknown_machine_has_no_filter() -> None:
    """No filter is made up for an architecture whose numbers are not known."""
    with pytest.raises(UsageError) as caught:
        program("m68k", families=())
    assert caught.value.code == "usage.unknown-machine"


def test_both_tables_name_the_same_calls() -> None:
    """What is denied on one architecture is denied on the other, unless the other has no such call."""
    only_x86 = {"iopl", "ioperm", "uselib"}
    assert MACHINES["x86_64"].numbers.keys() - MACHINES["aarch64"].numbers.keys() == only_x86
    assert MACHINES["aarch64"].numbers.keys() < MACHINES["x86_64"].numbers.keys()
    for known in MACHINES.values():
        assert len(set(known.numbers.values())) == len(known.numbers)
        assert known.numbers.keys() >= EXAMINED


HEADERS = {
    "x86_64": ("asm/unistd_64.h", r"#define __NR_(\w+) (\d+)"),
    "aarch64": ("asm-generic/unistd.h", r"#define __NR(?:3264)?_(\w+) (\d+)"),
}


@pytest.mark.parametrize("machine", HEADERS)
def test_the_numbers_are_the_kernels(machine: str) -> None:
    """Where the kernel's headers are installed, they say the same."""
    name, pattern = HEADERS[machine]
    folders = (Path("/usr/include"), Path(f"/usr/include/{os.uname().machine}-linux-gnu"))
    header = next((path for folder in folders if (path := folder / name).exists()), None)
    if header is None:
        pytest.skip("the kernel's headers are not installed")
    numbers = {name: int(number) for name, number in re.findall(pattern, header.read_text())}
    known = {name: number for name, number in MACHINES[machine].numbers.items() if name in numbers}
    assert known == {name: numbers[name] for name in known}
    assert len(known) >= len(MACHINES[machine].numbers) - 2
