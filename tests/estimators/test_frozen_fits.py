"""Fits with every choice named give the numbers that they gave before: see frozen_fits.py."""

import frozen_fits
import pytest

pytestmark = pytest.mark.usefixtures("without_means")

TOLERANCE = 1e-7  # of numbers up to 1, and relative to the largest of an array
OF_SOLVES = 1e-4  # their factor of variances comes from solves in single precision


def test_the_file_has_the_cases_of_the_list():
    assert set(frozen_fits.stored()) == set(frozen_fits.cases())


@pytest.mark.second(share=0.1)
@pytest.mark.parametrize("name", frozen_fits.cases())
def test_the_numbers_of_a_fit_are_those_that_are_stored(name):
    if name.startswith("dask/"):
        pytest.importorskip("distributed")
    distance, what = frozen_fits.furthest(frozen_fits.answers(name), frozen_fits.stored()[name])
    tolerance = OF_SOLVES if name.startswith(("posterior/rows", "learned/rows")) else TOLERANCE
    assert distance < tolerance, f"{what} is {distance:.1e} away"
