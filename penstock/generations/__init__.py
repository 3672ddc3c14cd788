"""Views with changed definitions: their differences, their build, and the switch of readers."""

from penstock.generations.app_comparison import agrees
from penstock.generations.build import build_small_change
from penstock.generations.build_progress import (
    AT_ONCE,
    STEP,
    BuildProgress,
    Switch,
    catch_up,
    migrated_of,
    take_build_step,
)
from penstock.generations.build_thread import BuildingEngine, BuildTurns, Turn, start_build
from penstock.generations.generation_numbers import GenerationNumbers, agree_numbers
from penstock.generations.opening_with_app import Migrate, core_on
from penstock.generations.preview import preview_of
from penstock.generations.refill import Progressed, Refilled, Refilling, begin, not_meant
from penstock.generations.refill_steps import refill_step

__all__ = [
    "AT_ONCE",
    "STEP",
    "BuildProgress",
    "BuildTurns",
    "BuildingEngine",
    "GenerationNumbers",
    "Migrate",
    "Progressed",
    "Refilled",
    "Refilling",
    "Switch",
    "Turn",
    "agree_numbers",
    "agrees",
    "begin",
    "build_small_change",
    "catch_up",
    "core_on",
    "migrated_of",
    "not_meant",
    "preview_of",
    "refill_step",
    "start_build",
    "take_build_step",
]
