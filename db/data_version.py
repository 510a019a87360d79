"""Which state the runs are in: what a page made of them stays right while this stays the same."""

from sqlalchemy import Engine, func, select

from db.engine import reading
from db.schema import Round, Run


def version(engine: Engine) -> str:
    """A text that changes with every result that is stored and every run that is deleted.

    Each result brings a run, which is the newest, or a further round; a deletion makes the runs
    fewer. So three numbers tell, without a counter that every writer would have to turn.
    """
    # apart: each alone is answered by the end of an index, both together read the whole of it
    asked = (
        select(func.count()).select_from(Run),
        select(func.max(Run.created_at)),
        select(func.max(Round.number)),
    )
    statement = select(*(one.scalar_subquery() for one in asked))
    with reading(engine) as connection:
        count, newest, last_round = connection.execute(statement).one()
    return f"{count}|{newest}|{last_round}"
