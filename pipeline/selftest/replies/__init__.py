"""Reply-level faults, one file each.

Every module says in its docstring what breaks and where that happens, and has ``CAUGHT_BY``, the check that must
catch it (:mod:`pipeline.selftest.catalogue` explains its form), and ``inject``, which spoils a sound case.
"""
