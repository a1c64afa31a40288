"""Do the tests notice mistakes? ``python -m tests.mutants``.

A mutant is the package with one mistake in it, such as half of the noise. Each is made
in a copy of the sources and given to the tests that should notice it. The command
prints which test did, and fails if a mutant survives all of them, or if its mistake no
longer fits the source.
"""
