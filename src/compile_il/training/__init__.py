"""Trains models on demonstrations or worlds, and keeps what each run writes."""
