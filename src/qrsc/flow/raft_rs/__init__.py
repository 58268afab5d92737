"""RAFT-RS, the flow network of the package: `network` and its parts, and `estimator`, which runs it on any frames."""
