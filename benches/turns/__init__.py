"""What benches share whose contestants take turns, each run in a process of its own.

It is imported as `turns` from the folder above, which is put on the path by a bench, and by `children` for contestants.
"""
