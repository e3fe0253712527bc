"""What graphs cost: analytic and measured models."""
