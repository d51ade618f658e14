"""What may stand in a word's place."""
