"""How a noisy table or noisy reports are read before a student learns from them."""
