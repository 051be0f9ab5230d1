//! What may be captured of one process by this account: tried where trying is harmless, not guessed.
