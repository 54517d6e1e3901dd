"""O6: external commands behind the provider port.

Owns the wire, the recipe and the import, and what a foreign command may see. Never uses a shell or the ambient
environment, never decides anything: what comes back is untrusted until the host maps it.
"""

from __future__ import annotations

from commandprovider.config import ResolvedConfig, command_config, import_config, recipe_config
from commandprovider.documents import DOCUMENTS, Config, Imported
from commandprovider.imported import ImportedChange, ImportProvider, in_order
from commandprovider.provider import CommandProvider
from commandprovider.recipe import RecipeProvider
from commandprovider.tool import ToolHost

__all__ = (
    "DOCUMENTS",
    "CommandProvider",
    "Config",
    "ImportProvider",
    "Imported",
    "ImportedChange",
    "RecipeProvider",
    "ResolvedConfig",
    "ToolHost",
    "command_config",
    "import_config",
    "in_order",
    "recipe_config",
)
