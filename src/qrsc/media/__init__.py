"""Pictures and videos on disk: the only room that knows file formats and codecs."""
