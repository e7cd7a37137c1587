"""Three kernels that show that an installation works.

``kernels`` holds them, ``cases`` their sizes, references and bounds, ``run`` compiles, compares and times them.
"""
