"""How all clips of a batch are corrected, and a fingerprint that changes when the results would."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qrsc import __version__
from qrsc.video.correction_options import CorrectionOptions
from qrsc.weights import card, file_sha256, shipped_weights

SEGMENT = 250  # frames
SHORTEST_SEGMENT = 20  # frames; shorter ones would mostly be lead


@dataclass(frozen=True)
class Settings:
    """How all clips of a batch are corrected.

    Attributes:
        options: of the correction.
        segment: frames of a segment of a long clip; 0 divides none.
    """

    options: CorrectionOptions
    segment: int = SEGMENT

    def __post_init__(self) -> None:
        for name in ("flow", "fusion"):
            value = getattr(self.options, name)
            if value is not None and not isinstance(value, str):
                raise TypeError(
                    f"{name} of a batch is a name or a file, which other processes can load; got {value!r}."
                )
        flow = self.options.flow
        if isinstance(flow, str) and (flow.endswith(".npz") or Path(flow).is_dir()):
            raise ValueError(f"{flow} holds the flows of one clip; correct it with qrsc correct.")
        if self.segment and self.segment < SHORTEST_SEGMENT:
            raise ValueError(f"a segment has {SHORTEST_SEGMENT} frames or more, or 0 for none; got {self.segment!r}.")

    def described(self) -> dict[str, Any]:
        """Everything that a result depends on beside its input, for JSON."""
        return {
            "version": __version__,
            "options": asdict(self.options),
            "segment": self.segment,
            "weights": self._weights(),
        }

    def fingerprint(self) -> str:
        """A short text that is another one if anything of this is."""
        return hashlib.sha256(json.dumps(self.described(), sort_keys=True).encode()).hexdigest()[:16]

    def _weights(self) -> dict[str, str]:
        """SHA-256 of the weights that may be loaded: those of the package, and files that were named."""
        hashes = {name: str(card(name)["sha256"]) for name in shipped_weights()}
        for given in (self.options.flow, self.options.fusion):
            if isinstance(given, str) and Path(given).is_file():
                hashes[given] = file_sha256(Path(given))
        return hashes
