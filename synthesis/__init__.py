"""O1, the session: its documents, the pure state machine, its budgets and the one terminal receipt.

This package owns what a piece of work is bound to and which step may follow which. It never does I/O, reads no clock,
knows no provider, and lets no text that a provider wrote choose a phase. :mod:`synthesis.machine` decides,
:mod:`synthesis.table` is what it reads, :mod:`synthesis.replay` runs it again from records.
"""

from __future__ import annotations

from synthesis.budgets import CallRecord, Consumption, Spent, consume, spent, tripped
from synthesis.machine import Refusal, Transitioned, check_floor, drift, start, transition
from synthesis.replay import command_of, document_of, fold, transition_document
from synthesis.table import REFUSALS, TABLE, TERMINAL_PHASES, RefusalCode

__all__ = [
    "REFUSALS",
    "TABLE",
    "TERMINAL_PHASES",
    "CallRecord",
    "Consumption",
    "Refusal",
    "RefusalCode",
    "Spent",
    "Transitioned",
    "check_floor",
    "command_of",
    "consume",
    "document_of",
    "drift",
    "fold",
    "spent",
    "start",
    "transition",
    "transition_document",
    "tripped",
]
