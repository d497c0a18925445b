"""Tests that the mistakes of tests/mutants still fit the source; otherwise they would silently test nothing."""
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_each_mistake_fits_the_source():
    done = subprocess.run([os.path.join(ROOT, "tests/mutants/mutants.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0 and "29 mutants fit" in done.stdout, done
