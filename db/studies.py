"""Studies: named bodies of results and what their author says of them."""

from typing import Any

from sqlalchemy import Connection, Engine, func, select

from db.engine import reading, writing
from db.schema import Run, Study
from db.statements import upsert
from models.errors import NotFound
from models.result import Study as StudyShape
from models.result import utc_now

_FIELDS = ("id", "title", "origin", "source", "summary", "claims", "limits", "notes", "facts")


def list_studies(engine: Engine) -> list[dict[str, Any]]:
    """Studies by title, each with how many runs it has (``n_runs``) and of which ``kinds``."""
    with reading(engine) as connection:
        runs: dict[str, dict[str, int]] = {}
        for study, kind, n in connection.execute(
            select(Run.study, Run.kind, func.count())
            .where(Run.study.is_not(None))
            .group_by(Run.study, Run.kind)
            .order_by(Run.kind)
        ):
            runs.setdefault(str(study), {})[kind] = int(n)
        rows = connection.execute(select(*_columns()).order_by(Study.title, Study.id)).mappings()
        return [
            {
                **row,
                "n_runs": sum(runs.get(row["id"], {}).values()),
                "kinds": list(runs.get(row["id"], {})),
            }
            for row in rows
        ]


def study(engine: Engine, study_id: str) -> StudyShape:
    """One study.

    Raises:
        NotFound: There is no such study.
    """
    with reading(engine) as connection:
        row = connection.execute(select(*_columns()).where(Study.id == study_id)).mappings().first()
    if row is None:
        raise NotFound("There is no such study.", "Choose one from the list of studies.")
    return StudyShape.model_validate(dict(row))


def save(engine: Engine, study: StudyShape) -> None:
    """Keep a study; one of the same id is replaced, its runs stay."""
    with writing(engine) as connection:
        save_in(connection, study)


def save_in(connection: Connection, study: StudyShape) -> None:
    """As ``save``, inside a transaction."""
    values = {**study.model_dump(mode="json"), "updated_at": utc_now()}
    connection.execute(
        upsert(
            connection, Study, values, key=["id"], update=[name for name in values if name != "id"]
        )
    )


def _columns() -> list[Any]:
    return [getattr(Study, name) for name in _FIELDS]
