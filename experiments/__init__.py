"""What makes the tables and plots of docs/results.md: `python -m experiments --help`."""
