"""What benches share whose contestants take turns, each run in a process of its own.

It is imported as `turns` from the folder above, which a bench puts on its own path, and `children` on that of a contestant.
"""
