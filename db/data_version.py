"""Which state the runs are in: what a page made of them stays right while this stays the same."""

from sqlalchemy import Engine, func, select

from db.engine import reading
from db.schema import Round, Run


def version(engine: Engine) -> str:
    """A text that changes with every result that is stored and every run that is deleted.

    Each result brings a run, which is the newest, or a round; a deleted run takes its own along.
    So the two counts and the two newest tell, without a counter that every writer has to turn.
    """
    of_runs = select(func.count(), func.max(Run.created_at), func.max(Run.number)).select_from(Run)
    of_rounds = select(func.count(), func.max(Round.number)).select_from(Round)
    with reading(engine) as connection:
        runs = connection.execute(of_runs).one()
        rounds = connection.execute(of_rounds).one()
    return "|".join(str(value) for value in (*runs, *rounds))
