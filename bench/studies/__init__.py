"""Studies that developers run: synthetic identification, random parts lists, propellers against measurements."""
