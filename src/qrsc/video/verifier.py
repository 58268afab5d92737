"""Verification of an output before it gets its name: always asked for, or for as long as it is cheap."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from qrsc.media.atomic import keep_unverified
from qrsc.media.errors import VerificationError
from qrsc.media.verify import Verification, verify_video
from qrsc.media.write_record import WriteRecord

# Without a wish, verification takes at most this part of the time that the work took.
LARGEST_SHARE = 0.05


@dataclass
class Verifier:
    """Verifies one output.

    Args:
        wanted: True checks everything, False nothing, None as much as `LARGEST_SHARE` of the time allows.
        source: the video that the output is made from; None for a folder of images.
        whole: all of the source is used, and not only a part.

    Attributes:
        found: what was confirmed; None if nothing was checked.
    """

    wanted: bool | None
    source: Path | None
    whole: bool
    found: Verification | None = None
    _started: float = field(default_factory=time.perf_counter)

    def check(self, work: Path, target: Path, record: WriteRecord, container: str) -> None:
        """Verify a finished file that is to become `target`; if it fails, the file is kept under another name.

        Raises:
            VerificationError: the file does not hold what it should.
        """
        if self.wanted is False:
            return
        limit = None if self.wanted else LARGEST_SHARE * (time.perf_counter() - self._started)
        try:
            self.found = verify_video(work, record, container, self.source, whole=self.whole, seconds=limit)
        except ValueError as error:
            kept = keep_unverified(work, target)
            what = str(error) if isinstance(error, VerificationError) else "it cannot be read again"
            raise VerificationError(
                f"the result was written, but is not what it should be: {what}. It is kept as {kept}; {target} was "
                "not touched. The input may have changed during the run, or the disk failed; else please report it."
            ) from error

    def allow(self, seconds: float) -> None:
        """Count time that was spent on this output elsewhere."""
        self._started -= seconds

    def confirm(self, what: str) -> None:
        """Note what was confirmed in another way."""
        self.found = Verification((what,))

    @property
    def summary(self) -> str:
        """One line on what was confirmed and what was left out; empty if nothing was checked."""
        if self.found is None:
            return ""
        confirmed = ", ".join(self.found.confirmed) or "nothing"
        if not self.found.left_out:
            return confirmed
        return f"{confirmed}; left out, to stay under {LARGEST_SHARE:.0%} of the time: {', '.join(self.found.left_out)}"
