"""The physical probe of a harness: start the real program in a throwaway world, wake it, and say what was seen."""
