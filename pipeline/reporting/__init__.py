"""What people read: terminal summary and HTML report."""
