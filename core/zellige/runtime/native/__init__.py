"""The quick way into a kernel: machine code that checks a call's arguments and packs them, one and the same for all kernels and backends."""
