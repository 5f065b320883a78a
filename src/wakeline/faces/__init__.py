"""What callers see: each face parses, calls one service method and renders."""
