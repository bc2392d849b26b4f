"""What papers propose: bounds beside the certified ones, which need none of them."""
