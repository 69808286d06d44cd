"""What all hooks are made with: which call is under way, on which replica, and what is missing."""
