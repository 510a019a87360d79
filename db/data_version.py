"""Which state the runs are in: what a page made of them stays right while this stays the same."""

from sqlalchemy import Engine, func, select

from db.engine import reading
from db.schema import Round, Run


def version(engine: Engine) -> str:
    """A text that changes with every result that is stored and every run that is deleted.

    Each result brings a run, which is the newest, or a further round; a deletion makes the runs
    fewer. So three numbers tell, without a counter that every writer would have to turn.
    """
    of_runs = select(func.count(), func.max(Run.created_at)).select_from(Run)
    with reading(engine) as connection:
        count, newest = connection.execute(of_runs).one()
        last_round = connection.execute(select(func.max(Round.number))).scalar_one()
    return f"{count}|{newest}|{last_round}"
