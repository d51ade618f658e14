"""What is known of English words: WordNet's synonyms, word vectors, a tagger, a sentence encoder, stop words, and where they lie."""
