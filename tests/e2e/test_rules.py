"""Rules of the repository through the command line: what they may do, and what flags may add to them."""

from __future__ import annotations

import shlex

from tests.e2e.conftest import Shop, git

RECIPE = ("--recipe", "/bin/sh -c 'echo x >> README.txt'")
GREEN = ("--must-pass", "/bin/true")


def test_a_formatter_of_the_repository_needs_trust_too(shop: Shop) -> None:
    """It runs as unsandboxed as a check: nothing of it runs before its policy is trusted, and then it does."""
    shop.uncontained()
    marker = shop.root / "ran"
    command = shlex.join(("/bin/sh", "-c", f"touch {marker}"))
    shop.write(".savant/config.toml", f"domain = 'shop'\n[[normaliser]]\nid = 'fmt'\ncommand = \"{command}\"\n")
    shop.commit("a formatter")
    before = shop.state()
    denied = shop.run("Change", *RECIPE, *GREEN)
    assert denied.code == 40, denied
    (item,) = [item for item in denied.json["items"] if not item["ready"]]
    assert item["code"] == "driver.policy-untrusted"
    assert str(marker) in item["detail"]
    assert not marker.exists()
    assert shop.state() == before
    listed = shop.savant("trust", "--format", "json").json
    assert list(listed["commands"]) == ["normaliser:fmt"]
    assert shop.savant("trust", listed["policy"]).code == 0
    assert shop.run("Change", *RECIPE, *GREEN).code == 0
    assert marker.exists()


def test_an_import_has_no_scope(shop: Shop) -> None:
    """A scope limits what is generated: with an import it would go unheeded, so it is refused."""
    shop.write("README.txt", "changed\n")
    shop.commit("a change")
    git(shop.path, "checkout", "-q", "--detach")
    patch = shop.root / "p.patch"
    patch.write_text("--- a/README.txt\n+++ b/README.txt\n@@ -1 +1 @@\n-changed\n+again\n")
    for flags in (("--from-commit", "HEAD~1..HEAD"), ("--patch", str(patch))):
        refused = shop.run("Change", *flags, *GREEN, "--scope", "shop/**")
        assert (refused.code, refused.json["code"]) == (2, "usage.scope-import")
        assert shop.run("Change", *flags, *GREEN).code == 0


def test_a_stricter_check_of_the_same_name_runs_beside_the_projects(shop: Shop) -> None:
    """A person may demand that what must not get worse passes; the project's own check stays as it is."""
    shop.write(".savant/config.toml", 'domain = "shop"\n[[check]]\nid = "false"\ncommand = "/bin/false"\n')
    shop.commit("a check that is red")
    assert shop.savant("trust", shop.savant("trust", "--format", "json").json["policy"]).code == 0
    assert shop.run("Change", *RECIPE).code == 0
    strict = shop.run("Change", *RECIPE, "--must-pass", "/bin/false", "--retries", "0")
    assert (strict.code, strict.json["reason"]) == (30, "retry-budget-exhausted")
    checks = shop.savant("show", strict.json["run"], "--format", "json").json["evaluations"][0]["checks"]
    assert {c["evaluator"]: c["comparison"] or c["status"] for c in checks if "false" in c["evaluator"]} == {
        "false": "still-failing",
        "false-2": "failed",
    }
