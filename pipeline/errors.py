"""The one error tree, split by what the caller can do about it.

::

    GateError                     exit 30  base of all; a bare one is a broken run
    ├── InputError                exit  2  the user can mend it; nothing was run
    │   ├── UsageError                     the command line or this machine's set-up is wrong
    │   ├── SettingsError                  a YAML file under configs/ or an option is wrong
    │   ├── ModelError                     unknown model, or a checkpoint that cannot be gated
    │   ├── RecipeError                    unknown recipe, or one that does not fit the checkpoint
    │   └── GoldenSetError                 a golden set that cannot be used
    ├── StageError                exit 30  a stage broke; kept work is reused by the next run
    │   ├── EnvironmentMissing             an environment is absent or has other pins
    │   ├── QuantizeError                  the quantizer failed
    │   ├── ServerError                    the engine did not start, died or answered nonsense
    │   ├── ReplayError                    turns could not be answered
    │   ├── LoadError                      requests failed under load: figures of the others mean nothing
    │   ├── DiskSpaceError                 not enough room
    │   ├── RecordError                    a kept record is unreadable or was altered
    │   └── SignoffError                   a release must not be signed off or moved
    └── Interrupted               exit 130 Ctrl-C or SIGTERM

A verdict is not an error: its exit codes are in :data:`VERDICT_EXIT_CODES`.
Every message says what is wrong and where (file, line, field); ``remedy`` says what to do.
"""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """The gate's answer. Anything that is not a proved ACCEPT exits non-zero."""

    ACCEPT = "ACCEPT"
    REJECT = "REJECT"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"


VERDICT_EXIT_CODES: dict[Verdict, int] = {
    Verdict.ACCEPT: 0,
    Verdict.REJECT: 10,
    Verdict.INCONCLUSIVE: 20,
    Verdict.INVALID: 30,
}


class GateError(Exception):
    """Base of all errors that the gate raises on purpose.

    :param message: what is wrong, naming file, line and field where there are any.
    :param remedy: what the user can do, in one or a few lines; empty when nothing sensible is known.
    """

    exit_code = 30

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class InputError(GateError):
    """The user's input is wrong; nothing was run."""

    exit_code = 2


class UsageError(InputError):
    """The command line or this machine's set-up is wrong."""


class SettingsError(InputError):
    """A settings file or an option is wrong."""


class ModelError(InputError):
    """The model is unknown or its checkpoint cannot be gated."""


class RecipeError(InputError):
    """The recipe is unknown or does not fit the checkpoint."""


class GoldenSetError(InputError):
    """The golden set cannot be used."""


class StageError(GateError):
    """A stage broke; what was kept is reused by the next run."""


class EnvironmentMissing(StageError):
    """An environment is absent or was built from other pins."""


class QuantizeError(StageError):
    """The quantizer failed."""


class ServerError(StageError):
    """The engine did not start, died, or answered nonsense."""


class ReplayError(StageError):
    """Turns could not be answered."""


class LoadError(StageError):
    """Requests failed under load, so the figures of the others mean nothing."""


class DiskSpaceError(StageError):
    """There is not enough disk space."""


class RecordError(StageError):
    """A kept record is unreadable or was altered."""


class SignoffError(StageError):
    """A release must not be signed off, or the champion not be moved."""


class Interrupted(GateError):
    """The user or the system asked to stop."""

    exit_code = 130
