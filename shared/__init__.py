"""What the services have in common: the vocabulary at the top, and below it one package per concern."""
