"""Pictures of fitted models, in scikit-learn's idiom.

Every display has ``from_estimator`` and, where predictions are enough, ``from_predictions``. Both
draw at once. ``plot`` draws the same again, on other axes. matplotlib is imported when something is
drawn, and not before.

- `_display`: the axes, and what is drawn of columns of all types
- `_predictions`: predictions of one or two inputs, how many targets are within intervals, and what
  one column does
"""

from ._predictions import CoverageDisplay, EffectDisplay, PredictionBandDisplay

__all__ = ["CoverageDisplay", "EffectDisplay", "PredictionBandDisplay"]
