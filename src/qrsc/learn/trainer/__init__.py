"""What every training shares: options, learning-rate schedule, Lightning module, run and state on disk."""
