"""tests/mutants: mistakes that no longer fit the source would be noticed by nobody."""
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_each_mistake_fits_the_source():
    done = subprocess.run([os.path.join(ROOT, "tests/mutants/mutants.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0 and "29 mutants fit" in done.stdout, done
