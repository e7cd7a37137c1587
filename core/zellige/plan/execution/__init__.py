"""Running plans: control flow of a role, the state of channels and turns, asynchronous operations, schedules."""
