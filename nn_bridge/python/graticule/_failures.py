# SPDX-License-Identifier: BSD-3-Clause
"""Sharded calls that fail on some ranks only: they end on all ranks with one error, and the next calls work."""
from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Optional

from ._domain import Domain
from ._errors import Error

# Kinds of errors that a rank may have alone, while others wait for it. All ranks have agreed on others before they raise them.
_ALONE = ("FailedNode", "OutOfMemory", "UnexpectedException", "StalledExchange", "MpiError", "PeerFailed", "CallDisagreement")
_passes = [0]  # of training that are running, which end all ranks, and renew domains, themselves


@contextlib.contextmanager
def recovered() -> Iterator[None]:
    """Within: what fails is left to the caller, who ends it on all ranks and renews their domains."""
    _passes[0] += 1
    try:
        yield
    finally:
        _passes[0] -= 1


class Together:
    """A call of a sharded model, or a backward: `with Together(domain, forget):`. Collective.

    An exception that leaves it on some ranks leaves it on all. Who has one of its own keeps it, all others get that of the lowest
    rank. Ranks that wait for one that failed stop waiting, and the domain is renewed: by a rank that was interrupted, or is about to
    end, in its next call. forget: drops what is known of earlier calls, which may no longer be the same on all ranks. agrees: False
    where ranks may end it alone; others then get the error of one that failed in the next call that needs it.
    Cost: an all-reduce of one number, unless the domain does not check calls.
    """

    def __init__(self, domain: Domain, forget: Callable[[], None] = lambda: None, agrees: bool = True) -> None:
        self.domain, self.forget, self.agrees = domain, forget, agrees
        self.inner = domain.num_ranks == 1 or domain._in_call

    def __enter__(self) -> None:
        if self.inner:
            return
        left, self.domain._left = self.domain._left, None
        if left is not None:
            self.forget()
            self.domain.renew()
            self._agreed(left)
        self.domain._in_call = True

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        if self.inner:
            return
        self.domain._in_call = False
        if error is None or isinstance(error, Exception):
            if error is None or kind.__name__ != "_StopRecomputationError":
                self._end(error)
        elif _passes[0] == 0:
            self.domain._left = Error("PeerFailed", _text(error).rstrip(": "))
            self.domain._object.announce(self.domain._left.text)

    def _end(self, error: Optional[Exception]) -> None:
        found: Optional[Exception] = error
        if not _is_alone(error):
            if not self.domain._checks or not self.agrees:
                return
            found = self._agreed(error)
            if found is None or not _is_alone(found):
                if error is None and found is not None:
                    raise found
                return
        self.forget()
        if _passes[0] == 0:
            self.domain._object.announce(_text(found if error is None else error))
            self.domain.renew()
            found = self._agreed(None if _is_of_another(error) else error) or found
        if found is not None and found is not error and (error is None or _is_of_another(error)):
            raise found

    def _agreed(self, error: Optional[Exception]) -> Optional[Error]:
        """The error of the lowest rank that has one, None where none has. Collective."""
        rule = error.rule if isinstance(error, Error) else "PeerFailed"
        text = error.text if isinstance(error, Error) else None if error is None else _text(error)
        try:
            self.domain._object.agree(rule, text)
        except Error as agreed:
            return agreed.with_traceback(None)
        return None


def _is_alone(error: Optional[Exception]) -> bool:
    return error is not None and (not isinstance(error, Error) or error.rule in _ALONE)


def _is_of_another(error: Optional[Exception]) -> bool:
    return isinstance(error, Error) and error.rule in ("PeerFailed", "CallDisagreement")


def _text(error: Any) -> str:
    return str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
