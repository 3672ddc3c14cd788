"""Operations of a server: long requests of operators, with progress and result."""
