"""Columns of text that are hardly meant as categories: numbers, dates, a name for each row."""

import re

import numpy as np

from skgp_sparse._ground.warnings import TextColumnWarning, warn
from skgp_sparse.rows.missing import missing_among

_SHARE = 0.95  # of values that spell numbers or dates, and of rows that have a level of their own
_FEWEST = 50  # rows of which levels tell that
_VALUES_READ = 10_000  # values that are read
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY, _YEAR, _BETWEEN = r"(?:0?[1-9]|[12]\d|3[01])", r"\d{4}", r"([-/.])"
_CLOCK = r"(?:[T, ]+\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?[ap]\.?m\.?)?"
_ZONE = r"(?: ?(?:Z|UTC|GMT|[-+]\d\d:?(?:\d\d)?))?)?"
_DATES = [
    re.compile(date + _CLOCK + _ZONE, re.IGNORECASE)
    for date in (
        rf"{_YEAR}{_BETWEEN}(?:0?[1-9]|1[0-2])(?:\1{_DAY})?",  # 2020-01-31, 2020-01
        rf"{_DAY}{_BETWEEN}{_DAY}\1(?:{_YEAR}|\d\d)",  # 31.01.2020, 1/31/20
        rf"(?:[a-z]+,? )?{_DAY}[-. ]+{_MONTH}[-, ]+(?:{_YEAR}|\d\d)",  # Fri, 31 Jan 2020
        rf"(?:[a-z]+,? )?{_MONTH}[- ](?:{_DAY}(?:st|nd|rd|th)?,? )?{_YEAR}",  # Jan 31, 2020
    )
]


def warn_of_text(columns, name):
    """Tell once of columns that are hardly meant as categories.

    Parameters
    ----------
    columns : iterable of tuple
        For each category its name, whether it is text without a type that says more, its values
        (n,) and its levels, of which a missing value is one.
    name : str
        Of the estimator.
    """
    found = [words for one in columns if (words := _finding(*one))]
    if found:
        warn(
            f"{name}: text in X is a category, whose levels have no order. {' '.join(found)} Name "
            "columns that should stay categories in categorical_features, or filter this "
            "TextColumnWarning of skgp_sparse.exceptions.",
            TextColumnWarning,
        )


def _finding(column, is_text, values, levels):
    """Text of the warning about a column, None if there is none."""
    texts = _some_texts(values) if is_text else []
    for what, spells, remedy in _SPELLED:
        does = {one: spells(one) for one in {*texts}}
        share = np.mean([does[one] for one in texts]) if texts else 0.0
        if share >= _SHARE:
            return (
                f"Column {column!r} spells {what} in {share:.0%} of its values, first "
                f"{texts[0]!r}: convert it by {remedy}."
            )
    n_levels, n = len(levels) - int(levels[-1] != levels[-1]), len(values)
    if n_levels < _SHARE * _FEWEST:
        return None
    n -= int(missing_among(values).sum())
    if n < _FEWEST or n_levels < _SHARE * n:
        return None
    return (
        f"Column {column!r} has {n_levels} levels in {n} rows, and says nothing of new rows: drop "
        "it, or put a part of it in its place that rows share."
    )


def _some_texts(values):
    """Some values that are text, evenly spaced."""
    some = values[:: -(-len(values) // _VALUES_READ)]
    return [one for one in some.tolist() if isinstance(one, str)]


def _spells_number(text):
    """Whether a text is a number, with commas, a currency or a per cent sign perhaps."""
    number = text.strip().strip("$€£%").replace(",", "")
    try:
        float(number)
    except ValueError:
        return False
    return any(map(str.isdigit, number))


def _spells_date(text):
    return any(date.fullmatch(text.strip()) for date in _DATES)


_SPELLED = (
    ("numbers", _spells_number, "pandas.to_numeric, or cast of polars"),
    ("dates", _spells_date, "pandas.to_datetime, or str.to_datetime of polars"),
)
