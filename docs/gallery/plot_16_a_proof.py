"""
A proof that anybody can check
==============================

A proof is a file. One short file of Python decides whether it is correct. It uses only integers and
fractions, so you need not trust the solver.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import lyra_opt as lo
import lyra_opt.proofs.stand_alone
from lyra_opt.__main__ import main

os.chdir(tempfile.mkdtemp())
fleet = lo.generate("reclaim", "rnd-dist", servers=20)
lo.save(fleet, "fleet.json")
exit_code = main(["solve", "fleet.json", "--solver", "exact", "--proof", "proof.json", "--quiet"])
print("the proof has", Path("proof.json").stat().st_size, "bytes")

# The checker is told the two files, and nothing of what made them.
checker = [sys.executable, lo.proofs.stand_alone.__file__, "fleet.json", "proof.json"]
said = subprocess.run(checker, capture_output=True, text=True)
print(said.stdout.strip(), "- exit code", said.returncode)

# %%
# :doc:`/proofs` explains how such a proof works.

lo.plot(fleet, lo.solve(fleet, "exact"))
