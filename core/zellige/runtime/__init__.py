"""What happens at a call: arrays of any framework as addresses, argument checks, results allocated."""
