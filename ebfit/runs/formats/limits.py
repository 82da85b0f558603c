"""How much of a log is read: more is refused in a sentence that says what to do, before it takes memory and time.

All are far beyond what training logs hold, and such that reading stays within a few gigabytes of memory.
"""

# one JSON document, which is parsed as a whole: a list of a million records is a tenth of it
MAX_DOCUMENT_BYTES = 256 * 2**20
# values in it, each of which is an object in memory
MAX_DOCUMENT_VALUES = 20_000_000
# cells of a table that is made of records with different keys, gaps included
MAX_CELLS = 50_000_000
