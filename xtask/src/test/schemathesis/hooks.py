"""Waits of lease calls take real time: no example waits for long."""

import re

import schemathesis

UNITS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
LONGEST = 60_000
SHORT = 20


def millis(wait):
    """The milliseconds of a wait, if it is one at all."""
    if isinstance(wait, int) and not isinstance(wait, bool):
        return wait
    if isinstance(wait, str) and re.fullmatch("([0-9]+(w|d|h|ms|m|s))+", wait):
        return sum(int(count) * UNITS[unit] for count, unit in re.findall("([0-9]+)(w|d|h|ms|m|s)", wait))
    return None


@schemathesis.hook
def before_call(context, case, kwargs):
    if isinstance(case.body, dict):
        wait = millis(case.body.get("wait"))
        # Only what the server would take: a wait that it refuses must stay one.
        if wait is not None and SHORT < wait <= LONGEST:
            case.body["wait"] = SHORT
