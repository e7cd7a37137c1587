"""Passes from tile IR to tile IR, and the runner that checks each of them."""
