"""What a person set on a page, kept by name."""

import uuid
from typing import Any

from sqlalchemy import Engine, select
from sqlalchemy import delete as delete_from

from db.engine import reading, writing
from db.schema import Scenario
from db.statements import changed, upsert
from models.errors import InvalidSpec, NotFound
from models.result import utc_now


def save(engine: Engine, name: str, page: str, state: dict[str, Any]) -> str:
    """Keep a page's state; the same name on the same page is replaced and keeps its id.

    Raises:
        InvalidSpec: The name is empty.
    """
    name = name.strip()
    if not name:
        raise InvalidSpec("A scenario needs a name.", "Type one and save again.")
    now = utc_now()
    values = {
        "id": str(uuid.uuid4()),
        "name": name,
        "page": page,
        "state": state,
        "created_at": now,
        "updated_at": now,
    }
    with writing(engine) as connection:
        connection.execute(
            upsert(
                connection,
                Scenario,
                values,
                key=["page", "name"],
                update=["state", "updated_at"],
            )
        )
        return connection.execute(
            select(Scenario.id).where(Scenario.page == page, Scenario.name == name)
        ).scalar_one()


def list_scenarios(engine: Engine, page: str) -> list[dict[str, Any]]:
    """Scenarios of a page, last changed first: id, name, page, created_at, updated_at."""
    with reading(engine) as connection:
        rows = connection.execute(
            select(
                Scenario.id,
                Scenario.name,
                Scenario.page,
                Scenario.created_at,
                Scenario.updated_at,
            )
            .where(Scenario.page == page)
            .order_by(Scenario.updated_at.desc(), Scenario.name)
        )
        return [dict(row) for row in rows.mappings()]


def load(engine: Engine, scenario_id: str) -> dict[str, Any]:
    """One scenario: id, name, page, state, created_at, updated_at.

    Raises:
        NotFound: There is no such scenario.
    """
    with reading(engine) as connection:
        row = connection.execute(
            select(
                Scenario.id,
                Scenario.name,
                Scenario.page,
                Scenario.state,
                Scenario.created_at,
                Scenario.updated_at,
            ).where(Scenario.id == scenario_id)
        ).first()
    if row is None:
        raise _not_found()
    return dict(row._mapping)


def delete(engine: Engine, scenario_id: str) -> None:
    """Remove a scenario.

    Raises:
        NotFound: There is no such scenario.
    """
    with writing(engine) as connection:
        if not changed(connection, delete_from(Scenario).where(Scenario.id == scenario_id)):
            raise _not_found()


def _not_found() -> NotFound:
    return NotFound("There is no such scenario any more.", "Choose one from the list.")
