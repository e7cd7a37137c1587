"""The tile IR: what the user wrote, with no target in it."""
