"""The quick way into a kernel: machine code that checks and packs a call's arguments, the same for all kernels and backends."""
