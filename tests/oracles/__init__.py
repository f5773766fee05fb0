"""What must be answered, recomputed from scratch; none of this imports sash."""
