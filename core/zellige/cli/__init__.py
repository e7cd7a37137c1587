"""The command ``zellige``. Each command is a module that is loaded when it runs; ``main`` holds the list."""
