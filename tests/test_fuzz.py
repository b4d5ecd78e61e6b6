"""Some of the random cases of `fuzz.py`, always the same: about a minute."""

import fuzz


def test_what_must_hold_for_every_case_holds():
    fuzz.run(n_cases=200, first_seed=0)
