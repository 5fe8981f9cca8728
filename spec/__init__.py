"""What is true: the cards, the equations, the arithmetic and the proofs."""
