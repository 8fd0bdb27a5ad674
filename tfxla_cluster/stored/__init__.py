"""What is kept between processes: the form of an entry, and the places where entries lie."""
