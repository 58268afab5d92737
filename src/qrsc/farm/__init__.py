"""Many clips and long clips, on a pool of worker processes or on a Ray cluster: `qrsc batch`."""
