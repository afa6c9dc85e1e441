"""How fast the models are: timed side by side, against the work they do and what the machine can do."""
