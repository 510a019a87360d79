import copy

import models.errors as errors
from models.errors import LinkworthError


def test_an_error_is_a_sentence_and_a_step() -> None:
    error = errors.GpuBusy("GPU 0 is in use.", "Wait, or pick another.", "pid 4711")
    assert str(error) == "GPU 0 is in use. Wait, or pick another."
    assert str(LinkworthError("Alone.")) == "Alone."


def test_an_error_keeps_its_parts_between_processes() -> None:
    error = errors.RunTimedOut("Too long.", "Raise the limit.", "log")
    again = copy.copy(error)  # copies as multiprocessing does: through __reduce__
    assert isinstance(again, errors.RunTimedOut)
    assert (again.sentence, again.next_step, again.detail) == (
        "Too long.",
        "Raise the limit.",
        "log",
    )
