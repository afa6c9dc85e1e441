"""Looking at graphs and models."""
