"""
A proof that a stranger can check
=================================

"Optimal" asks for trust; a proof does not. It is a file, and one short file of Python decides
whether it holds, with integers and fractions alone.
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
# How such a proof works: :doc:`/proofs`.

lo.plot(fleet, lo.solve(fleet, "exact"))
