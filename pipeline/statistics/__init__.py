"""Pure paired statistics: no I/O, nothing of the pipeline above."""
