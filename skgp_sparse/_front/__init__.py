"""What both estimators share, from the arrays of a user to the plan of a fit, and back.

checks, parameter_checks
    What cannot be used, of data and of parameters: what was got, and what to do instead.
choices
    Names become objects, and choices are judged together.
default_kernels
    The kernels that are used by default, in the units of the data.
initialisers
    `inducing_init` becomes a function of the rows.
plans
    Parameters of an estimator become the plan of a fit.
training_rows
    Arrays of a user become rows: small tables in one canonical form.
surveys
    The first pass through a source: every chunk is checked, and what they have in common is noted.
source_rows
    A source in the place of X becomes rows.
targets
    Between standardised (n, p) targets and the y of a user.
responses
    Between a process that a likelihood follows and the y of a user.
estimator
    The base class: fitted attributes, progress, failing without a trace.
certificates
    Bounds of the exact evidence of a fitted regressor.
multiclass
    Classes become problems to fit, and their answers become one.
class_problems
    The problems of a classifier are fitted, here or in other processes.
streams
    Rows that arrive later: what an estimator keeps, and what a call of partial_fit does.
regression_streams, class_streams, site_streams
    The same for numbers, for labels, and for what has sites.
sklearn_compat
    What is private or absent in some versions of scikit-learn.
"""
