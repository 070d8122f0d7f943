"""Segments demonstrations and acts with trained skills, and reads and writes them."""
