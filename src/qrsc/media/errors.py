"""What can be wrong with a picture or a video on disk."""

from __future__ import annotations


class MediaError(ValueError):
    """A file or folder that cannot be read or written as asked; the message names it and says what to do."""


class VerificationError(MediaError):
    """A file was written, and does not hold what it should; the message says what differs and where the file is."""
