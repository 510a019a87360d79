"""Every error a person may see: what went wrong, what to try next, what to log.

One child per cause, not per module. Pages show ``sentence`` and ``next_step``; ``detail`` and the
traceback go to the log.
"""


class LinkworthError(Exception):
    """Something a person can act on.

    Args:
        sentence: What went wrong, one plain sentence.
        next_step: What to try, one plain sentence; may be empty.
        detail: For the log only (child output, identifiers).
    """

    def __init__(self, sentence: str, next_step: str = "", detail: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.next_step = next_step
        self.detail = detail

    def __str__(self) -> str:
        """One line: the sentence, then the next step."""
        return f"{self.sentence} {self.next_step}".strip()

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        """Keep all three parts when an error crosses a process boundary."""
        return type(self), (self.sentence, self.next_step, self.detail)


class InvalidSpec(LinkworthError):
    """A request that cannot be carried out as written."""


class RunnerUnavailable(LinkworthError):
    """A program, library or device that a runner needs is not there."""


class GpuBusy(LinkworthError):
    """A GPU is used by somebody else, or set aside after an incident."""


class OutOfMemory(LinkworthError):
    """The model, cache or buffers do not fit."""


class ServerDidNotStart(LinkworthError):
    """The serving engine ended or hung before it was ready."""


class ServerDied(LinkworthError):
    """The serving engine ended while it was being measured."""


class RunTimedOut(LinkworthError):
    """A time limit ended the work."""


class RunCancelled(LinkworthError):
    """A person ended the work."""


class RankFailed(LinkworthError):
    """One of the processes of a collective ended with an error; the sentence names its rank."""


class ValuesWrong(LinkworthError):
    """Computed or transferred values were wrong: vetoes every comparison."""


class UnreadableFile(LinkworthError):
    """A file that is no known format, or that must be refused."""


class DuplicateFile(LinkworthError):
    """The same bytes are already stored; ``detail`` holds the id of the first run."""


class DatabaseUnavailable(LinkworthError):
    """The database is locked, read-only, full or out of reach."""


class DatabaseTooNew(DatabaseUnavailable):
    """The database was written by a newer version of the code."""


class NotPredicted(LinkworthError):
    """A prediction that would be a guess; the next step says what would make it possible."""


class NotFound(LinkworthError):
    """A run, job or study that does not exist (any more)."""


class ReadOnly(LinkworthError):
    """Read-only mode refuses to start or delete anything."""
