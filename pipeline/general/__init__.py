"""General ability: suites of lm-eval tasks, and the script that runs them against a server."""
