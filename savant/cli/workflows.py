"""What ``savant init --ci`` and ``--hook`` write: a gate in a forge's pipeline, and one before a push.

The pipelines install this version of ``savant-synthesis`` from the index that pip is configured with.

The rules come from the target branch, the head is only read; the job may read the repository and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

CHECKOUT: Final = "actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683  # v4.2.2"

GITHUB: Final = """\
# The gate of Savant: {docs}
# What it stops is said by [gate] in .savant/policy.toml of the branch that a change goes to; the default only reports.
name: savant
on:
  pull_request:
  merge_group:
permissions:
  contents: read
jobs:
  gate:
    runs-on: ubuntu-24.04
    steps:
      - uses: {checkout}
        with:
          ref: ${{{{ github.event.pull_request.head.sha || github.event.merge_group.head_sha }}}}
          fetch-depth: 0
          persist-credentials: false
      - name: Install Savant and what contains its commands
        run: |
          sudo apt-get install --yes bubblewrap
          python3 -m venv "$RUNNER_TEMP/savant"
          "$RUNNER_TEMP/savant/bin/pip" install "savant-synthesis=={version}"
      # Evidence of the runs that commits name: bundles that `savant bundle --branch` put on branches. Whose count is
      # said by .savant/ledgers.toml of the branch that the change goes to.
      - name: Gate
        env:
          BASE: ${{{{ github.event.pull_request.base.sha || github.event.merge_group.base_sha }}}}
        run: |
          mkdir "$RUNNER_TEMP/evidence"
          git log --max-count=1000 --format='%(trailers:key=Savant-Run,valueonly)' "$BASE..HEAD" > "$RUNNER_TEMP/runs"
          set -- --event "$GITHUB_EVENT_PATH" --judge --summary "$GITHUB_STEP_SUMMARY" --format github
          for run in $(grep -Ex '[0-9a-f]{{32}}' "$RUNNER_TEMP/runs" | sort -u); do
            bundle="$RUNNER_TEMP/evidence/$run.tar"
            if git archive --output="$bundle" "origin/savant-evidence/$run"; then set -- "$@" --evidence "$bundle"; fi
          done
          "$RUNNER_TEMP/savant/bin/savant" gate "$@"
"""

GITLAB: Final = """\
# The gate of Savant: {docs}
# Include it in .gitlab-ci.yml:  include: [{{local: .gitlab/savant.yml}}]
# What it stops is said by [gate] in .savant/policy.toml of the branch that a change goes to; the default only reports.
savant-gate:
  image: python:3.12-slim
  rules:
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
  variables:
    GIT_DEPTH: "0"
  script:
    - apt-get update && apt-get install --yes git bubblewrap
    - python3 -m venv /opt/savant
    - /opt/savant/bin/pip install "savant-synthesis=={version}"
    # Evidence of the runs that commits name: bundles that `savant bundle --branch` put on branches. Whose count is
    # said by .savant/ledgers.toml of the branch that the change goes to.
    - |
      git fetch --quiet origin "+refs/heads/savant-evidence/*:refs/remotes/origin/savant-evidence/*" || true
      base=$CI_MERGE_REQUEST_DIFF_BASE_SHA
      git log --max-count=1000 --format='%(trailers:key=Savant-Run,valueonly)' "$base..$CI_COMMIT_SHA" > runs.txt
      set -- "$base..$CI_COMMIT_SHA" --judge --format junit
      for run in $(grep -Ex '[0-9a-f]{{32}}' runs.txt | sort -u); do
        if git archive --output="$run.tar" "origin/savant-evidence/$run"; then set -- "$@" --evidence "$run.tar"; fi
      done
      /opt/savant/bin/savant gate "$@" > savant-gate.xml
  artifacts:
    when: always
    reports:
      junit: savant-gate.xml
"""

HOOK: Final = """\
#!/bin/sh
# The gate of Savant before a push: {docs}
# It stops what [gate] in .savant/policy.toml stops. Remove this file to be rid of it.
nothing=$(git hash-object --stdin </dev/null | tr '0-9a-f' '0')
while read -r _ head _ base; do
    test "$head" = "$nothing" && continue
    if test "$base" = "$nothing"; then
        # A branch that is new there: from where it left what the remote is known to have, else its last commit.
        first=$(git rev-list --first-parent "$head" --not --remotes="$1" | tail -n 1)
        base=$(git rev-parse --quiet --verify "$first^")
        git for-each-ref "refs/remotes/$1/" | grep -q . || base=
    fi
    savant gate "${{base:+$base..}}$head" || exit 1
done
"""

DOCS: Final = "docs/gate.md of savant-synthesis"


class Written(msgspec.Struct, frozen=True):
    """A file that ``init`` writes beside the rules: where, what, and whether it runs."""

    path: str
    template: str
    executable: bool = False

    def text(self, version: str) -> str:
        """The file for a version of Savant."""
        return self.template.format(docs=DOCS, checkout=CHECKOUT, version=version)


PIPELINES: Final[Mapping[str, Written]] = MappingProxyType(
    {
        "github": Written(".github/workflows/savant.yml", GITHUB),
        "gitlab": Written(".gitlab/savant.yml", GITLAB),
    }
)
"""The forges by name; the path is below the top of the checkout."""

PRE_PUSH: Final = Written("hooks/pre-push", HOOK, executable=True)
"""The hook; the path is below git's own folder."""
