"""Pictures of fitted models, in scikit-learn's idiom.

Every display has ``from_estimator`` and, where predictions are enough, ``from_predictions``. Both
draw at once. ``plot`` draws the same again, on other axes. matplotlib is imported when something is
drawn, and not before.

- `_display`: the axes, and what is drawn of columns of all types
- `_prediction_band`: predictions of one or two inputs
- `_coverage`: how many targets are within intervals
- `_effect`: what one column does
"""

from ._coverage import CoverageDisplay
from ._effect import EffectDisplay
from ._prediction_band import PredictionBandDisplay

__all__ = [
    "CoverageDisplay",
    "EffectDisplay",
    "PredictionBandDisplay",
]
