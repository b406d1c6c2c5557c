namespace relibra {}
