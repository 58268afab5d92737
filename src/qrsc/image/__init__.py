"""Operations on single pictures: sampling, blurs, colour spaces, resizing, filling from the surroundings."""
