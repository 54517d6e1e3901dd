"""A decision depends on request, policy and signatures alone: not on order, locale, clock, hash seed or platform."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from admission.decide import decide
from admission.documents import Exemption, Owned, PathRule, Staged
from admission.policy import policy_toml, read_policy, starter_policy
from savant.contracts.document import digest_of, seal
from savant.contracts.scalars import as_set
from tests.admission.kit import Tree, f, link, make_request, x

ROOT = Path(__file__).resolve().parents[2]
BASE: Tree = {b"a.py": f(b"a\n"), b"tests/test_a.py": f(b"t\n"), "\u00fc.txt".encode(): f(b"u\n"), b"I.txt": f(b"i\n")}
AFTER: Tree = {
    **BASE,
    b"a.py": f(b"z\n"),
    b"tests/test_a.py": f(b"v\n"),
    "\u00fc.txt".encode(): f(b"w\n"),
    b"I.txt": f(b"j\n"),
    b"Makefile": f(b"all:\n"),
    b"l": link(b"a.py"),
    b"e": x(b"e\n"),
}
POLICY = structs.replace(
    starter_policy("repository"),
    codeowners="ask",
    staged=(Staged(rule="new-links", enforcement="warn"),),
    exceptions=(
        Exemption(id="e", rule="new-executables", patterns=("e",), reason="r", expires="2026-06-30"),
        Exemption(id="g", rule="build", patterns=("**",), reason="r", expires=None),
    ),
)
OWNERS = as_set(
    Owned(owners=(name,), paths=as_set(("a.py", "\u00fc.txt")), reviewers=as_set(("ada", "Zoe")))
    for name in ("@b", "@B", "@\u00e4")
)


def decided() -> str:
    """The digest of a decision with many rules in it, after its policy was written and read."""
    policy = read_policy(policy_toml(POLICY).encode())
    request = make_request(BASE, AFTER, policy=policy)
    asked = seal(structs.replace(request.document, owners=OWNERS, custody=("tests/test_a.py",), as_of="2026-06-30"))
    return digest_of(decide(asked, seal(policy)))


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C", "TZ": "Pacific/Kiritimati"},
        {"LC_ALL": "tr_TR.UTF-8", "TZ": "America/Adak", "PYTHONHASHSEED": "1"},
        {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "4294967295", "PYTHONUTF8": "0"},
    ],
    ids=["C", "tr", "seed"],
)
def test_another_process_decides_the_same_bytes(environment: dict[str, str]) -> None:
    """Under another locale, time zone and hash seed."""
    program = "from tests.admission.test_determinism import decided; print(decided())"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**{k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "TZ"))}, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == decided()


RULES = [
    PathRule(id=f"r{n}", patterns=as_set(patterns), operations=(), reason=f"{n}", enforcement="enforce")
    for n, patterns in enumerate((("a.py",), ("**",), ("tests/", "I.txt"), ("*.txt",)))
]


@given(st.permutations(RULES), st.permutations(["**", "a.py", "tests/**"]))
def test_the_order_in_which_a_policy_is_written_is_nothing(rules: list[PathRule], allow: list[str]) -> None:
    """Whatever order the file has, the document and the decision are the same bytes."""
    policy = structs.replace(starter_policy("repository"), ask=as_set(rules), allow=as_set(allow))
    text = policy_toml(structs.replace(policy, ask=tuple(rules), allow=tuple(allow)))
    assert read_policy(text.encode()) == policy
    first = structs.replace(policy, ask=as_set(RULES), allow=as_set(("**", "a.py", "tests/**")))
    assert digest_of(policy) == digest_of(first)


IMPURE = frozenset({"time", "datetime", "locale", "os", "random", "secrets", "platform", "socket", "subprocess", "sys"})


def test_nothing_that_decides_looks_at_the_machine() -> None:
    """No module of admission imports a clock, a locale, an environment or chance; reading TOML knows what a date is."""
    for module in sorted((ROOT / "admission").glob("*.py")):
        tree = ast.parse(module.read_text("utf-8"))
        found = {
            (node.module or "" if isinstance(node, ast.ImportFrom) else name.name).partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in node.names
        }
        allowed = {"datetime"} if module.name == "policy_schema.py" else set()
        assert found & IMPURE <= allowed, module.name
