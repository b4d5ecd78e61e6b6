"""The door: what users pass becomes valid rows, and these become tables.

- `door`: reads arrays, sources and chunks
- `checks`: the one validator of rows, and of what is passed with them
- `gaps`: missing values and infinity, by column
- `types`: what the columns of a data frame are, and the codes of its categories
- `latitudes`: latitudes that no place on a sphere has
- `survey`: the first pass through a source
- `part`: some rows in memory, all rows whatever holds them, and the units of their targets
- `chunks`: all rows, held by a source
"""
