"""Operations on single images: sampling, blurs, colour spaces, resizing, filling gaps from neighbouring pixels."""
