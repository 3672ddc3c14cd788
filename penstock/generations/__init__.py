"""Views with changed definitions: their differences, their build, and the switch of readers."""

from penstock.generations.agreed_opening import MEMORY, Migrate, core_on
from penstock.generations.agreement import agrees
from penstock.generations.build import build_few
from penstock.generations.build_progress import AT_ONCE, STEP, Swept, Switch, swept_by
from penstock.generations.build_thread import Sweeper, Turn
from penstock.generations.generation_numbers import Concert, concerted
from penstock.generations.preview import preview_of
from penstock.generations.refill import Progressed, Refilled, Refilling, begin, not_meant
from penstock.generations.refill_steps import refill_step

__all__ = [
    "AT_ONCE",
    "MEMORY",
    "STEP",
    "Concert",
    "Migrate",
    "Progressed",
    "Refilled",
    "Refilling",
    "Sweeper",
    "Swept",
    "Switch",
    "Turn",
    "agrees",
    "begin",
    "build_few",
    "concerted",
    "core_on",
    "not_meant",
    "preview_of",
    "refill_step",
    "swept_by",
]
