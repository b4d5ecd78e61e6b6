"""The door: what users pass becomes valid rows, and these become tables.

- `door`: reads arrays, chunks, and sources, of which it makes a first pass
- `checks`: the one validator of rows and of what is passed with them; text, times and missing
  targets where there may be none; missing values, infinity and impossible latitudes, by column
- `columns`: columns of tables of any library, their types, codes of categories, orders of labels
"""
