"""DP-SGD (Abadi et al. 2016): a model that learns from clipped gradients with noise, and is private itself."""
