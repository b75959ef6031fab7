"""Vehicle files of other programs, read and written: what they say, what they cannot say, and what it became here."""
