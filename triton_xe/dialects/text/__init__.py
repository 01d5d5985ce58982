"""Reading and writing the text of the dialects."""
