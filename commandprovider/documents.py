"""The documents of O6: what a command provider is, precommitted in the session."""

from typing import Final, Literal, TypeAlias

from savant.contracts.document import Document, Part
from savant.contracts.scalars import Bytes, Count, Digest, GitId, Name, NonEmptyText, PatternText, Set, Text
from synthesis.documents import Operation

ProviderKind: TypeAlias = Literal["command", "recipe", "import", "agent"]
Author: TypeAlias = Literal["host", "agent"]
"""Who answers an operation: the host's fixed answer, or the agent through a closed schema."""


class Executable(Part, frozen=True, kw_only=True):
    """An executable as it was resolved once: the name that was asked for, and the digest of its bytes."""

    name: NonEmptyText
    content_digest: Digest


class Step(Part, frozen=True, kw_only=True):
    """One command of a recipe; never a shell. ``accepted`` lists the exit statuses that are no failure."""

    argv: tuple[NonEmptyText, ...]
    accepted: Set[Count]


class FailureStep(Part, frozen=True, kw_only=True):
    """A step that runs only when the request says that this check failed.

    The word ``{paths}`` in its argv becomes the paths that the findings of that check name.
    """

    check: Name
    argv: tuple[NonEmptyText, ...]
    accepted: Set[Count]


class Imported(Part, frozen=True, kw_only=True):
    """An existing change: the commit it comes from, or the digest of a patch."""

    commit: GitId | None
    patch_digest: Digest | None


class Agent(Part, frozen=True, kw_only=True):
    """A coding agent as it was resolved once, before the run.

    ``profile`` is the profile's name and ``profile_digest`` the digest of its data. ``capability`` says how the agent
    works. ``model`` and ``endpoint`` are empty for the agent's own default; ``version`` is what its probe reported, and
    ``tested`` whether the profile was tested with it. ``package_digest`` is the digest of the package that the
    executable belongs to, null for none. ``answer_flags`` are its arguments where it answers with JSON and
    ``edit_flags`` where it edits a copy, what differs from call to call as ``{name}``. ``settings_digest`` covers the
    files that are written into its private home and its fixed environment, ``prompts_digest`` every prompt template and
    answer schema.
    ``disclosed`` lists the patterns of the repository's own instruction files that it is shown, ``credentials`` the
    names of the sources that supply it, never a value.
    """

    profile: Name
    profile_digest: Digest
    capability: Literal["answer", "workspace", "acp"]
    model: Text
    endpoint: Text
    version: Text
    tested: bool
    package_digest: Digest | None
    answer_flags: tuple[Text, ...]
    edit_flags: tuple[Text, ...]
    settings_digest: Digest
    prompts_digest: Digest
    interpretation: Author
    planning: Author
    disclosed: Set[PatternText]
    credentials: Set[NonEmptyText]
    max_prompt_bytes: Bytes


class Config(Document, frozen=True, kw_only=True, tag="savant.commandprovider.config/v1"):
    """The provider of a run. Its digest is the session's ``provider_config_digest`` and the provider's identity.

    ``argv`` is the wire command (kind ``command``) or the name of the agent's executable (kind ``agent``), ``steps``
    and ``on_failure`` are the recipe, ``imported`` is the change. ``directory`` says whether the command works in a
    copy of the candidate or in an empty directory.
    """

    provider: Name
    provider_kind: ProviderKind
    operations: Set[Operation]
    argv: tuple[NonEmptyText, ...]
    directory: Literal["empty", "workspace"]
    steps: tuple[Step, ...]
    on_failure: tuple[FailureStep, ...]
    imported: Imported | None
    agent: Agent | None
    executables: Set[Executable]
    environment: Set[Name]
    network: Literal["open", "none"]
    promise: Set[PatternText]
    max_stdout_bytes: Bytes
    max_stderr_bytes: Bytes
    note: Text


DOCUMENTS: Final[tuple[type[Document], ...]] = (Config,)
