"""What the FAKE engine imports before it serves: nothing, but it says so."""

print("imported", flush=True)
