"""How fast Wakeline is, as ratios: every figure stands beside a reference that was measured in the same run."""
