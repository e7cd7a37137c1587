"""The family of machines with lanes: thread-level programs, their lowering from a plan, their printing and their simulation."""
