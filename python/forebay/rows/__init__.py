"""Row ids, which number all rows: the places of rows in the files, and lists of rows to leave out."""
