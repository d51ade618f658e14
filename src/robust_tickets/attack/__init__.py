"""Attacks on texts: a greedy kit, a batched engine under it, and one file per recipe.

An attack on one example is a generator that yields questions (``example``) and is sent the answers; the ``scheduler`` runs
many of them, batches their questions for the services, and the ``engine`` streams finished examples to disk (``result``).
"""
