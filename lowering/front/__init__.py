"""Operations that later passes do not know, and their expansions."""
