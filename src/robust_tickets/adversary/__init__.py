"""Inner maximisation, a file each: a callable that takes an Objective, backpropagates, returns the mean loss."""
