"""Makes the tables of README and docs: of all that was measured, beside what the paper prints."""
