"""Rules of the greedy kit: which words may change (``frozen``) and which candidates pass."""
