"""Arrow and Parquet, where they are installed."""

from typing import Any

from samara.core.optional_dependencies import MissingExtraError


def arrow() -> tuple[Any, Any, Any]:
    """pyarrow, its CSV and its Parquet"""
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.csv  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("campaigns need pyarrow: pip install 'samara[sweep]'") from None
    return pyarrow, pyarrow.csv, pyarrow.parquet
