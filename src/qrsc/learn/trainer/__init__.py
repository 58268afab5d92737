"""What every training run shares: device, seeds, checkpoints, schedule."""
