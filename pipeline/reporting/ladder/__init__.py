"""What people read of a ladder: table in terminal and Markdown, page with the Pareto plot, and ``ladder.json``."""
