import zellige as zl


def program() -> None:
    @zl.jit
    def make(n):
#   ^ E154
        return n + 1

    make(3)
