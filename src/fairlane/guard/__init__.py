"""Which parameters must match for a comparison, what is known of them, and how a mismatch is accepted."""
