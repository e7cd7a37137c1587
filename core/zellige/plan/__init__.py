"""Facts are decided here into a plan: placement, roles, channels, waits, choices, each with its reason."""
