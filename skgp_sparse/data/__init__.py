"""Rows that users pass, checked, as a `Dataset`.

- `moments`: means and spreads of columns, units of targets, distinct rows
- `dataset`: the contract of a dataset, and the one way to visit its rows
- `arrays`: the dataset whose rows are in memory
- `copies`: rows that belong together, and what weights say of rows
- `classes`: problems that labels become, and probabilities of classes
- `columns`: columns of tables of any library, their types, codes of categories, orders of labels
- `checks`: the one validator of rows and of what is passed with them
- `door`: reads arrays, chunks, and sources, of which it makes a first pass
"""
