"""The launcher of NVIDIA GPUs: the driver's library, and machine code that turns launch plans into its calls."""
