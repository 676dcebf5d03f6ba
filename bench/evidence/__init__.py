"""The evidence behind docs/results.md: experiments as data, their summaries, and the tables made from them.

Belongs here: experiments, docs/results/*.json, and the generated parts of README.md, README.zh-CN.md and
docs/results.md. Not here: benchmarks of speed (the modules beside this folder), tuning (bench/tuning.py).
"""
