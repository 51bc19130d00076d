"""What people read of a diagnosis: tables in terminal and Markdown, the page, and ``diagnosis.json``."""
