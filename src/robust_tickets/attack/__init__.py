"""Attacks on texts: a greedy kit, a batched engine under it, and one file per recipe.

An attack on one example is a generator that yields what it wants to know (``asking``) and is sent the answers; the ``scheduler`` keeps
many of them alive, merges their questions into batches for the victim, and streams finished examples to disk (``store``).
"""
