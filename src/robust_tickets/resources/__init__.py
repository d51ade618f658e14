"""Resources about English words: WordNet's synonyms, word vectors, a tagger, a sentence encoder, stop words."""
