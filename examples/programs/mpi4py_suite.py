##Sdist: mpi4py==3.1.4
##Command: /usr/bin/python3 {source} {sdist}
##Ranks: 3
##Lower: own
##Cut: after 50 to 500 lines of verdicts.0 with test_
##Compare: bytes of verdicts.0, bytes of verdicts.1, bytes of verdicts.2
##Modes: plain, continue, restart
##Timeout: 300
##Variant: openmpi; mpi=openmpi
##Variant: mpich; mpi=mpich; ranks=2; compare=bytes of verdicts.0, bytes of verdicts.1
##Shows: mpi4py's own test suite, Debian's build and one for MPICH: each test comes to the verdict that it comes to natively
"""Runs mpi4py's own tests and writes the verdict of each to verdicts.RANK, a line each.

Two ranks over MPICH, since with more than there are processors it takes a hundred times as long, natively as well.
"""
import glob
import os
import sys
import unittest

sys.dont_write_bytecode = True
package, library = sys.argv[1:]
source = os.path.join(package, "test")
# Debian's mpi4py, which is for Open MPI, does for it: there is no such folder.
sys.path[:0] = [source, os.path.join(package, library)]

import mpiunittest
from mpi4py import MPI

if library == "mpich":
    # They name no datatype here (docs/not-supported.md).
    from test_exceptions import TestExcDatatype

    removed = MPI.LB, MPI.UB
    TestExcDatatype.DATATYPES = [one for one in TestExcDatatype.DATATYPES if one not in removed]

# As the suite's own runner does without --skip-mpi: what does not work here is to be seen.
mpiunittest.skipMPI = lambda *_: lambda test: test

# Refused by name (docs/not-supported.md).
MODULES = {"test_spawn", "test_dynproc"}
# Natively Open MPI 4.1 creates no window over one process, and the suite then leaves out all of its tests
# of created windows. Under Stasis there are such windows.
CREATED = () if library != "openmpi" else (
    "TestErrhandler.testWinCallErrhandler",
    "TestExcWin",
    "TestMyWin",
    "TestRMA",
    "TestWinAttr",
    "TestWinCreate",
)


class Verdicts(unittest.TestResult):
    """What the tests come to, written as soon as it is known."""

    def __init__(self, file):
        super().__init__()
        self.file = file

    def tell(self, test, verdict):
        self.file.write(f"{test.id()} {verdict}\n")
        self.file.flush()

    def addSuccess(self, test):
        self.tell(test, "ok")

    def addSkip(self, test, reason):
        self.tell(test, "skipped")

    def addFailure(self, test, error):
        self.tell(test, "fails")

    def addError(self, test, error):
        self.tell(test, "fails")

    def addExpectedFailure(self, test, error):
        self.tell(test, "fails as expected")

    def addUnexpectedSuccess(self, test):
        self.tell(test, "succeeds unexpectedly")


def wanted(suite):
    """The tests of a suite, without those that are named above."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from wanted(test)
        elif not test.id().partition(".")[2].startswith(CREATED):
            yield test


names = sorted(os.path.basename(path)[:-3] for path in glob.glob(os.path.join(source, "test_*.py")))
loader = unittest.TestLoader()
tests = unittest.TestSuite()
for name in names:
    if name not in MODULES:
        tests.addTests(wanted(loader.loadTestsFromName(name)))

with open(f"verdicts.{MPI.COMM_WORLD.Get_rank()}", "w") as file:
    tests.run(Verdicts(file))
