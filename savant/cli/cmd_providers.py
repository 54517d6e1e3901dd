"""``providers``: the agents this program knows, the versions they were tested in, and what is found here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from savant.cli.options import format_option
from savant.cli.render import Output, table

if TYPE_CHECKING:
    from commandprovider import ToolHost
    from commandprovider.profiles import Profile
    from savant.cli.person import PersonConfig
    from savant.cli.places import Places


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of one agent here.

    :param executable: the program that would be started, as it lies on this machine; None when it is not installed.
    :param version: as it reports it; None when it reports none that can be read.
    :param tested: whether the profile was tested with that version; None without a version.
    :param credential: the names of the sources that supply it; None when there is none.
    :param problem: why it cannot be used now, empty when it can; ``fix`` is the command that helps.
    """

    profile: str
    executable: str | None
    version: str | None
    tested: bool | None
    credential: tuple[str, ...] | None
    problem: str
    fix: str


@click.command("providers", help="List the coding agents with profiles, their tested versions, and what is here.")
@click.option("--probe/--no-probe", default=True, help="Ask each agent that is found for its version.")
@format_option
def providers(probe: bool, format_: str) -> int:
    """Look at every profile; no model is called."""
    from commandprovider.profiles import PROFILES
    from savant.cli.person import read_person
    from savant.cli.places import find_places

    output = Output(as_json=format_ == "json")
    places = find_places()
    person = read_person(places)
    found = _look(places, person, PROFILES, probe=probe)
    rows = [(PROFILES[looked.profile], looked) for looked in found]
    output.document("providers", "ok", 0, {"providers": [_members(profile, looked) for profile, looked in rows]})
    if not output.as_json:
        output.say(*table((_HEAD, *(_row(profile, looked) for profile, looked in rows))), "")
        output.say(
            *(f"  {looked.profile}: {looked.problem}  next: {looked.fix}" for _, looked in rows if looked.problem)
        )
        output.say("", 'Any other program is a provider too: savant run "..." --provider CMD (docs/providers.md).')
    return 0


_HEAD = ("AGENT", "TITLE", "TIER", "MODES", "TESTED", "HERE", "CREDENTIAL")


def _row(profile: Profile, looked: Looked) -> tuple[str, ...]:
    if looked.executable is None:
        here = "not found"
    elif looked.version is None:
        here = "found"
    else:
        here = looked.version if looked.tested else f"{looked.version} (not tested)"
    return (
        profile.name,
        profile.title,
        profile.tier,
        ",".join(profile.capabilities),
        f"{profile.probe.tested[0]} to <{profile.probe.tested[1]}",
        here,
        "missing" if looked.credential is None else ", ".join(looked.credential) or "none needed",
    )


def _members(profile: Profile, looked: Looked) -> dict[str, Any]:
    first, after = profile.probe.tested
    return {
        "name": profile.name,
        "title": profile.title,
        "tier": profile.tier,
        "modes": list(profile.capabilities),
        "tested": {"from": first, "below": after},
        "reports_usage": profile.reports_usage,
        "reports_cost": profile.reports_cost,
        "network_hosts": list(profile.network_hosts),
        "install": profile.install,
        "found": looked.executable is not None,
        "executable": looked.executable,
        "version": looked.version,
        "in_tested_range": looked.tested,
        "credential": None if looked.credential is None else list(looked.credential),
        "problem": looked.problem,
        "fix": looked.fix,
    }


def _look(places: Places, person: PersonConfig, profiles: Mapping[str, Profile], *, probe: bool) -> Sequence[Looked]:
    """What is here of every agent; their versions are asked for in a scratch folder that is gone afterwards."""
    from commandprovider import ToolHost
    from savant.cli.workbench import session_scratch
    from savant.process.posix import SupervisedRunner

    with session_scratch(places) as scratch, SupervisedRunner(scratch / "processes") as processes:
        host = ToolHost(
            processes=processes,
            scratch=scratch / "tools",
            ambient=places.environment,
            search_path=places.search_path,
        )
        return [_look_at(places, person, profile, host, probe=probe) for profile in profiles.values()]


def _look_at(places: Places, person: PersonConfig, profile: Profile, host: ToolHost, *, probe: bool) -> Looked:
    from commandprovider.locating import is_tested, locate, probe_version
    from savant.cli.supplying import supply
    from savant.contracts.errors import PortError, UsageError
    from savant.process.effects import SystemClock

    settings = person.agent(profile.name)
    supplied = supply(places, profile, settings, now_ms=SystemClock().now_ms())
    why, help_ = supplied.missing.get(profile.name, ("", ""))
    looked = Looked(
        profile=profile.name,
        executable=None,
        version=None,
        tested=None,
        credential=None if why else supplied.secrets.sources,
        problem=why and f"no credential: {why}",
        fix=help_,
    )
    try:
        located = locate(profile, places.search_path, settings.executable)
    except UsageError:
        return msgspec.structs.replace(looked, problem="not installed", fix=profile.install)
    looked = msgspec.structs.replace(looked, executable=str(located.executable))
    if not probe:
        return looked
    try:
        version = probe_version(profile, located, host)
    except PortError as error:
        return msgspec.structs.replace(looked, problem=error.message, fix=error.fix)
    return msgspec.structs.replace(looked, version=version, tested=is_tested(profile, version))
