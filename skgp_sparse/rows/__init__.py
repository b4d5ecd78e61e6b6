"""The door: what users pass becomes valid rows, and these become tables.

- `door`: reads arrays, sources and chunks
- `checks`: the one validator of rows, and of what is passed with them
- `contents`: text, times and missing targets where there may be none
- `missing`: missing values and infinity, by column
- `columns`: columns of tables of any library
- `column_table`: what is known of the columns of a table
- `types`: what the columns of a data frame are, and the codes of its categories
- `latitudes`: latitudes that no place on a sphere has
- `label_order`: the order of labels, from a category, from numbers, or named by users
- `survey`: the first pass through a source
- `chunks`: all rows, held by a source
"""
