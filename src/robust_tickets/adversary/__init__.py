"""Inner maximisation, one file each: a configured callable that takes an Objective, backpropagates, and returns the mean loss."""
