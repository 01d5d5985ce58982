"""Facts about the hardware, one table each, shared by compiler and simulator."""
