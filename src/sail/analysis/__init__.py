"""What comes after training. Reads run folders only, and never imports jax."""
