"""What can go wrong with a call."""

from __future__ import annotations

from typing import Any, Dict, List


class DwellError(Exception):
    """Why a call did not go well."""

    def passes(self) -> bool:
        """Whether it is worth asking again: the fault is on the way, or passes by itself."""
        return False


class Problem(DwellError):
    """The server said no, and why. ``code`` is one of the API's stable codes, such as ``job_leased``."""

    def __init__(self, problem: Dict[str, Any]) -> None:
        self.code: str = str(problem.get("code", ""))
        self.status: int = int(problem.get("status", 0))
        self.detail: str = str(problem.get("detail") or problem.get("title") or self.code)
        self.errors: List[Dict[str, str]] = list(problem.get("errors", []))
        super().__init__(self.detail)

    def passes(self) -> bool:
        return self.code in ("rate_limited", "overloaded", "storage_failed", "storage_full", "internal")


class Unreachable(DwellError):
    """There is no connection to the server: nothing was done."""

    def passes(self) -> bool:
        return True


class Lost(DwellError):
    """The server was reached and did not answer: what was asked may have been done."""

    def passes(self) -> bool:
        return True


class NotDwell(DwellError):
    """Something answers that is not a Dwell server."""
