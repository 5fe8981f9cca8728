"""Tables of files, read with pandas: columns as arrays, rows as numbers that are the same where rows are alike."""

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gnomon.impl.loading import CannotLoad

Array = np.ndarray[Any, np.dtype[Any]]
_DIGITS = 3  # after the point, as the specification of rounded rows says


def read_table(path: Path) -> Any:
    """The table of a .csv or .parquet file; a CannotLoad with one sentence where there is none."""
    if not path.is_file():
        raise CannotLoad(f"cannot read {path}: there is no such file")
    readers = {".csv": _csv, ".parquet": pd.read_parquet}
    if path.suffix not in readers:
        raise CannotLoad(f"cannot read {path}: its name has to end in .csv or .parquet")
    try:
        frame = readers[path.suffix](path)
    except (ValueError, OSError, pd.errors.ParserError, ImportError) as error:
        raise CannotLoad(f"cannot read {path}: {' '.join(str(error).split())[:200]}") from error
    if not len(frame):
        raise CannotLoad(f"{path} has no rows")
    return frame


def _csv(path: Path) -> Any:
    return pd.read_csv(path, engine="pyarrow")


def column(frame: Any, name: str) -> Any:
    """A column without a missing value."""
    if name not in frame.columns:
        raise CannotLoad(f"there is no column {name!r}: there are {', '.join(map(repr, map(str, frame.columns)))}")
    missing = frame[name].isna().to_numpy()
    if missing.any():
        first = int(np.flatnonzero(missing)[0])
        raise CannotLoad(
            f"the column {name!r} lacks a value in {int(missing.sum()):,} of {len(frame):,} rows, the first of them "
            f"row {first}: fill them in, or leave these rows out"
        )
    return frame[name]


def group_codes(frame: Any, name: str) -> tuple[Array, Any]:
    """The number of each row's group, and what the groups are called."""
    codes, names = pd.factorize(column(frame, name))
    return np.asarray(codes), names


def times(frame: Any, name: str) -> Array:
    """A number for each row's time."""
    found = column(frame, name)
    if pd.api.types.is_numeric_dtype(found) and not pd.api.types.is_bool_dtype(found):
        return np.asarray(found.to_numpy())
    try:
        return np.asarray(pd.to_datetime(found, format="ISO8601", utc=True).dt.tz_localize(None).to_numpy())
    except (ValueError, TypeError) as error:
        raise CannotLoad(
            f"the column {name!r} holds no times, but {found.iloc[0]!r}: numbers and dates like 2026-01-31 are"
        ) from error


def copy_codes(frame: Any, equality: str, columns: tuple[str, ...]) -> Array:
    """A number for each row, the same for those that are alike in some columns, or in all."""
    codes = np.zeros(len(frame), np.int64)
    for name in columns or tuple(frame.columns):
        if name not in frame.columns:
            column(frame, name)
        own, kinds = pd.factorize(_key(frame[name], equality), use_na_sentinel=False)
        codes, _ = pd.factorize(codes * (len(kinds) + 1) + own)
    return codes


def _key(values: Any, equality: str) -> Any:
    """What two entries of a column have in common that are alike."""
    if equality == "rounded" and pd.api.types.is_float_dtype(values):
        return np.round(values.to_numpy(), _DIGITS) + 0.0
    if equality == "text" and not pd.api.types.is_numeric_dtype(values):
        codes, kinds = pd.factorize(values, use_na_sentinel=False)
        return np.array([_plain(kind) for kind in kinds], object)[codes]
    return values


def _plain(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def altered(frame: Any, held: Array, seed: int) -> Any:
    """The table with other entries in the rows held out: columns keep their kinds, and nothing stays what it was."""
    changed, rng = frame.copy(), np.random.default_rng(seed)
    for place, name in enumerate(frame.columns):
        values = frame[name].iloc[held].to_numpy()[rng.permutation(len(held))]
        if pd.api.types.is_bool_dtype(frame[name]):
            values = ~values.astype(bool)
        elif pd.api.types.is_numeric_dtype(frame[name]):
            values = values * (2 + seed) + 7
        elif pd.api.types.is_datetime64_any_dtype(frame[name]):
            values = values + np.timedelta64(1000, "D")
        else:
            values = np.array([f"{value} held out {seed}" for value in values], object)
        changed.iloc[held, place] = values
    return changed
