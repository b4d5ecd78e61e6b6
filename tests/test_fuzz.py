"""Some of the random cases of `fuzz.py`, always the same: half a minute."""

import fuzz
import pytest

LONG = pytest.param(19, marks=pytest.mark.full(share=0))  # a softmax of variance 1e10: minutes


@pytest.mark.second(share=0.02)
@pytest.mark.parametrize("first_seed", [*range(19), LONG])
def test_what_must_hold_for_every_case_holds(first_seed):
    fuzz.run(n_cases=4, first_seed=first_seed)
