"""Tests that the mistakes of tests/mutants still fit the source; otherwise they would silently test nothing."""
import os
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.parametrize("program, count", [("mutants.py", 29), ("takeover.py", 13)])
def test_each_mistake_fits_the_source(program, count):
    done = subprocess.run([os.path.join(ROOT, "tests/mutants", program), "--check"], capture_output=True, text=True)
    assert done.returncode == 0 and f"{count} mutants fit" in done.stdout, done
