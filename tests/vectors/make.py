"""Writes the vectors that are missing: ``python tests/vectors/make.py [--check | --renew [KIND ...]]``.

For every kind in any package's ``DOCUMENTS``, under ``<kind>/v1/``:

- ``valid/full.json`` and ``valid/minimal.json``, made from the type alone: every nullable member present and every list
  filled, and the opposite; ``valid/example.json`` where ``examples.py`` or an ``examples_<package>.py`` has one;
- ``invalid/<reason>.json``, made mechanically from the valid ones; ``test_vectors.py`` knows each reason's code;
- ``digests.json``: the digest of each valid vector, so that the name of a document is pinned too.

Existing files are never rewritten: a published v1 does not change, and a vector that no longer passes is the proof that
it did. ``--renew`` rewrites the kinds it names, or all, before they are published. ``--check`` writes nothing and
exits 1 when something is missing.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

import examples  # noqa: E402 - found beside this script; ours are found under the root

from savant.contracts import canonical  # noqa: E402
from savant.contracts.document import Document, digest_of, kind_of, seal  # noqa: E402
from savant.contracts.scalars import SET_MARK, as_set  # noqa: E402

SAMPLES = (
    "name-{n}",
    "NAME_{n}",
    "savant.example.name/v{n}",
    "blake3:{n:064x}",
    "sha1:{n:040x}",
    "{n:064x}",
    "{n:040x}",
    "{n:032x}",
    "2026-01-0{n}",
    "SHA256:{n:A>43}",
    "/name/{n}",
    "ssh-ed25519 {n:A>68}",
    "0{n}",
)
"""Texts of the forms that scalars have; the first that a member's pattern accepts is used. ``n`` is 1 or 2."""


MISSPELT_KIND = "savant.synthesis.session/v1"
"""The kind that carries the vectors about bytes alone, which would be the same for every kind."""


def kinds() -> dict[str, type[Document]]:
    """Every declared kind with its type, sorted."""
    tops = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["uv"]["build-backend"]["module-name"]
    found = (path for top in tops for path in (ROOT / top).rglob("documents.py"))
    modules = (importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts)) for path in found)
    return dict(sorted((kind_of(type_), type_) for module in modules for type_ in module.DOCUMENTS))


def value(info: inspect.Type, n: int, *, full: bool) -> Any:
    """A value of a type: the fullest or the emptiest that is valid; ``n`` makes several ones differ."""
    match info:
        case inspect.Metadata():
            inner = value(info.type, n, full=full)
            return as_set(inner) if (info.extra or {}).get(SET_MARK) else inner
        case inspect.StructType():
            return info.cls(**{field.name: value(field.type, n, full=full) for field in info.fields})
        case inspect.VarTupleType():
            count = 2 if full else info.min_length or 0
            return tuple(value(info.item_type, place, full=full) for place in range(1, count + 1))
        case inspect.UnionType():
            if not full and any(isinstance(item, inspect.NoneType) for item in info.types):
                return None
            several = [item for item in info.types if not isinstance(item, inspect.NoneType)]
            return value(several[(n - 1) % len(several)], n, full=full)
        case inspect.LiteralType():
            return info.values[(n - 1) % len(info.values)]
        case inspect.IntType():
            return min(info.le or n, max(info.ge or 0, n if full else 0))
        case inspect.BoolType():
            return full
        case inspect.StrType():
            return text(info, n, full=full)
        case inspect.NoneType():
            return None
        case _:
            raise TypeError(f"no example for {info}")


def text(info: inspect.StrType, n: int, *, full: bool) -> str:
    """A text that the pattern and the lengths accept."""
    if info.pattern is None:
        plain = f'text {n}: äöü \u2028 \\ " %0A' if full and not (info.max_length or 99) < 20 else ""
        return plain or "text"[: info.max_length] if full or info.min_length else ""
    for sample in SAMPLES:
        made = sample.format(n=n)
        if re.search(info.pattern, made) and len(made) >= (info.min_length or 0):
            return made
    raise TypeError(f"no sample of the form {info.pattern}; add one to SAMPLES")


def built(type_: type[Document], *, full: bool) -> Document:
    """A document made from its type alone."""
    made: Document = value(inspect.type_info(type_), 1, full=full)
    return made


def valid_vectors(type_: type[Document], given: Iterable[Document]) -> dict[str, bytes]:
    """The valid vectors of a kind, by name."""
    documents = {"full": built(type_, full=True), "minimal": built(type_, full=False)}
    for document in given:
        if type(document) is type_:
            documents["example"] = document
    return {name: seal(document).raw for name, document in documents.items()}


def spelt(value: Any) -> bytes:
    """JSON as our encoder spells it, of any value, valid or not."""
    return msgspec.json.encode(value, order="sorted")


def paths(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every place in a JSON value, outermost first."""
    yield at, value
    items: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        yield from paths(item, (*at, key))


def replaced(value: Any, at: tuple[str | int, ...], new: Any) -> Any:
    """A copy with something else at a place."""
    if not at:
        return new
    copy = value.copy()
    copy[at[0]] = replaced(value[at[0]], at[1:], new)
    return copy


def invalid_vectors(raw: bytes, type_: type[Document]) -> dict[str, bytes]:
    """What can be broken in a valid vector, by reason; a reason that does not apply to the kind is missing."""
    whole = json.loads(raw)
    places = list(paths(whole))
    member = min(name for name in whole if name != "kind")
    found = {
        "unknown-member": spelt(whole | {"zzz": 1}),
        "missing-member": spelt({name: item for name, item in whole.items() if name != member}),
        "wrong-kind": spelt(whole | {"kind": kind_of(type_).replace("/v1", "/v9")}),
        "wrong-type": spelt(whole | {member: {"zzz": 1}}),
        "duplicate-member": b"{" + spelt({member: whole[member]})[1:-1] + b"," + raw[1:],
        "white-space": raw.replace(b":", b": ", 1),
    }
    for at, item in places:
        if isinstance(item, int) and not isinstance(item, bool):
            found.setdefault("float", spelt(replaced(whole, at, item + 0.5)))
            found.setdefault("negative", spelt(replaced(whole, at, -1)))
        if isinstance(item, str) and item.startswith("blake3:"):
            found.setdefault("wrong-digest-form", spelt(replaced(whole, at, item.replace("blake3:", "sha256:"))))
    found |= broken_sets(whole, type_)
    return found | (misspelt(raw, whole) if kind_of(type_) == MISSPELT_KIND else {})


def misspelt(raw: bytes, whole: dict[str, Any]) -> dict[str, bytes]:
    """What is wrong with the bytes whatever the kind is; one kind carries these for all."""
    backwards = dict(sorted(whole.items(), reverse=True))
    number = next(at for at, item in paths(whole) if isinstance(item, int) and not isinstance(item, bool))
    digest = whole["task_digest"]
    return {
        "member-order": json.dumps(backwards, separators=(",", ":"), ensure_ascii=False).encode(),
        "escaped": raw.replace(b'"savant.', b'"\\u0073avant.', 1),
        "no-kind": spelt({name: item for name, item in whole.items() if name != "kind"}),
        "trailing-data": raw + b"{}",
        "trailing-newline": raw + b"\n",
        "byte-order-mark": b"\xef\xbb\xbf" + raw,
        "truncated": raw[:-1],
        "not-an-object": b"[" + raw + b"]",
        "float-spelling": spelt(replaced(whole, number, 1.0)),
        "too-large-integer": spelt(replaced(whole, number, 2**53)),
        "short-digest": spelt(whole | {"task_digest": digest[:-1]}),
        "digest-newline": spelt(whole | {"task_digest": digest + "\n"}),
    }


def broken_sets(whole: dict[str, Any], type_: type[Document]) -> dict[str, bytes]:
    """The first set of two that can be swapped, and the first that can repeat an element."""
    found: dict[str, bytes] = {}
    for at in set_places(inspect.type_info(type_), whole):
        elements = whole
        for key in at:
            elements = elements[key]  # type: ignore[index]
        if len(elements) > 1:
            found.setdefault("set-order", spelt(replaced(whole, at, list(reversed(elements)))))
        if elements:
            found.setdefault("set-repeat", spelt(replaced(whole, at, [*elements, elements[-1]])))  # type: ignore[index]
    return found


def set_places(info: inspect.Type, value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where a value of a type holds sets."""
    match info:
        case inspect.Metadata():
            if (info.extra or {}).get(SET_MARK):
                yield at
            yield from set_places(info.type, value, at)
        case inspect.StructType():
            for field in info.fields:
                yield from set_places(field.type, value[field.encode_name], (*at, field.encode_name))
        case inspect.VarTupleType():
            for place, item in enumerate(value):
                yield from set_places(info.item_type, item, (*at, place))
        case inspect.UnionType():
            several = [item for item in info.types if not isinstance(item, inspect.NoneType)]
            if value is not None and len(several) == 1:
                yield from set_places(several[0], value, at)
        case _:
            return


def written() -> Iterator[Document]:
    """The examples written by hand: ``examples.PACKAGES``, and ``examples()`` of every ``examples_<package>.py``."""
    for package in examples.PACKAGES:
        yield from package()
    for path in sorted(HERE.glob("examples_*.py")):
        yield from importlib.import_module(path.stem).examples().values()


def files(kind: str, type_: type[Document], given: Iterable[Document]) -> Iterator[tuple[Path, bytes]]:
    """Every vector of a kind, with its path."""
    home = HERE / kind
    valid = valid_vectors(type_, given)
    for name, raw in valid.items():
        yield home / "valid" / f"{name}.json", raw
    pinned = {name: digest_of(canonical.decode(raw, type_)) for name, raw in valid.items()}
    yield home / "digests.json", json.dumps(pinned, indent=1, sort_keys=True).encode() + b"\n"
    for reason, raw in invalid_vectors(valid["full"], type_).items():
        yield home / "invalid" / f"{reason}.json", raw


def main(arguments: list[str]) -> int:
    """Write what is missing, or say it."""
    check = arguments == ["--check"]
    renew = arguments[:1] == ["--renew"]
    if arguments and not check and not renew:
        sys.stderr.write(__doc__ or "")
        return 2
    given = list(written())
    missing = 0
    for kind, type_ in kinds().items():
        for path, raw in files(kind, type_, given):
            if path.exists() and not (renew and kind in (arguments[1:] or [kind])):
                continue
            missing += 1
            sys.stdout.write(f"{path.relative_to(HERE)}\n")
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(raw)
    return int(check and missing > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
