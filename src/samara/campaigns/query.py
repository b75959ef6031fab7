"""Questions to a campaign's rows, in SQL."""

from pathlib import Path
from typing import Any

from samara.campaigns.campaign import CampaignError
from samara.campaigns.store import open_store
from samara.core.optional_dependencies import MissingExtraError


def asked(folder: str | Path, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Names and rows of an answer by DuckDB; the campaign's rows are its table `rows`, and it sees no file besides"""
    try:
        import duckdb  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise MissingExtraError("queries need DuckDB: pip install 'samara[sweep]'") from None
    rows = open_store(folder).table()
    with duckdb.connect(":memory:") as database:
        database.register("rows", rows)
        database.execute("set enable_external_access = false")
        try:
            answer = database.execute(sql)
            return [own[0] for own in answer.description], answer.fetchall()
        except duckdb.Error as error:
            raise CampaignError(f"{sql!r}: {str(error).splitlines()[0]}") from None
