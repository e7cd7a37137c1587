"""``from zellige.carver.arch import driver``: what a program may ask about the machine that its kernels will run on."""
