"""Record the messages that every subgroup executed, in a readable form."""
