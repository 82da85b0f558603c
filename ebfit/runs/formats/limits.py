"""How much of a log is read: more is refused in a sentence that says what to do, before it takes memory and time.

All are far beyond what training logs hold. Within them reading takes a few gigabytes of memory at the very most, beside
twice the size of the file.
"""

MAX_LOG_BYTES = 8 * 2**30
# of a packed file: a few kilobytes can hold any number, and a table takes many times that in memory
MAX_UNPACKED_BYTES = 256 * 2**20
# of a table with a header: for every column there is a parser; W&B's tables have thousands
MAX_COLUMNS = 100_000
# of a Parquet file with numbers as text, unpacked; text of any length may be packed into nothing
MAX_TEXT_BYTES = 2**30
# of the table that a run is made of, cells with nothing in them included: a file of a few bytes can hold any number of
# rows that are all the same, and records that have no key in common make a column each
MAX_CELLS = 50_000_000
# of one JSON document, which is parsed as a whole
MAX_DOCUMENT_BYTES = 256 * 2**20
# in one JSON document: each is an object in memory, however short it was
MAX_DOCUMENT_VALUES = 20_000_000
# of a record of an event file, which are passed over if they are larger: images and histograms may be, numbers are not
MAX_RECORD_BYTES = 16 * 2**20
