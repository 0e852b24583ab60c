"""The API for products: takes events, and says what became of them."""
