"""Parts of `measure_cuda.py`."""
