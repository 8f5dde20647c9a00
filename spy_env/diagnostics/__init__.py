"""Numbers over many games: do votes still mean quality? Pure functions of saved games, without any model.

``diagnose`` has all of it: ``signal`` asks whether texts tell the spy at all, ``shortcuts`` and ``position_habit`` raise
named warnings, ``gaps`` and ``votes_and_proxies`` measure what they come from. ``lead`` compares a run's detectors with one that never learned.
"""

from spy_env.diagnostics.diagnosis import Diagnosis, Lead, diagnose, lead
from spy_env.diagnostics.probes import PROBES, Probe
from spy_env.diagnostics.proxies import Gap, diversity, gaps, near_duplicates, votes_and_proxies
from spy_env.diagnostics.shortcuts import Finding, position_habit, shortcuts
from spy_env.diagnostics.shown import detector_share, over
from spy_env.diagnostics.signal import Signal, signal

__all__ = [
    "PROBES",
    "Diagnosis",
    "Finding",
    "Gap",
    "Lead",
    "Probe",
    "Signal",
    "detector_share",
    "diagnose",
    "diversity",
    "gaps",
    "lead",
    "near_duplicates",
    "over",
    "position_habit",
    "shortcuts",
    "signal",
    "votes_and_proxies",
]
