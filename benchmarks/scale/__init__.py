"""Predicts allreduces on more ranks than there are, from the schedule and measured constants."""
