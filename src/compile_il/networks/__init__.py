"""Embeds observations, remembers them, and chooses actions under skills."""
