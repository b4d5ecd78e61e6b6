"""Some of the random cases of `fuzz.py`, always the same: some seconds."""

import fuzz
import pytest

LATER = [pytest.param(seed, marks=pytest.mark.full) for seed in range(10, 20)]


@pytest.mark.second(share=0.02, keep=5)
@pytest.mark.parametrize("first_seed", [*range(10), *LATER])
def test_what_must_hold_for_every_case_holds(first_seed):
    fuzz.run(n_cases=2, first_seed=first_seed)
