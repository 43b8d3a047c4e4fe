"""A pytest plugin for the tests of other projects: writes each test's outcome to a file.

The file, named by MILLSTREAM_OUTCOMES, has a line for each event: the test's id, `started` or its
outcome, and the first line of its error. Tests that have a line already are not run, so that a run
which ended early, because a test crashed or lost the device's context, can be continued.
"""

import importlib
import os
import pathlib

import pytest

PATH = pathlib.Path(os.environ["MILLSTREAM_OUTCOMES"])
KNOWN = {line.split("\t")[0] for line in PATH.read_text().splitlines()} if PATH.exists() else set()
# What an error says after a kernel's fault: the process has to start anew.
LOST = ("ILLEGAL_ADDRESS", "LAUNCH_FAILED", "ILLEGAL_INSTRUCTION", "MISALIGNED_ADDRESS")


def short(nodeid):
    """Returns the id below the package's folder of tests, or the project's own folder."""
    return nodeid.split("/tests/", 1)[-1].split("/clients/", 1)[-1]


def write(nodeid, outcome, reason=""):
    lines = str(reason).strip().splitlines() or [""]
    text = lines[0].strip().replace("\t", " ")[:200]
    with PATH.open("a") as results:
        results.write(f"{short(nodeid)}\t{outcome}\t{text}\n")


def reason_of(report):
    """Returns the message of a report's error."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return crash.message
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2]
    return report.longrepr or ""


class Installed(pytest.Module):
    """A test module of an installed package, imported under its own name."""

    def _getobj(self):
        parts = list(self.path.with_suffix("").parts)
        start = len(parts) - parts[::-1].index("numba")
        return importlib.import_module(".".join(["numba", *parts[start:]]))


def pytest_pycollect_makemodule(module_path, parent):
    if "numba" in module_path.parts:
        return Installed.from_parent(parent, path=module_path)
    return None


def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if short(item.nodeid) not in KNOWN]


def pytest_runtest_logstart(nodeid, location):
    write(nodeid, "started")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    error = report.failed and str(reason_of(report))
    if error and any(word in error for word in LOST):
        item.session.shouldstop = "the context was lost"


def pytest_runtest_logreport(report):
    if report.when != "call" and report.outcome == "passed":
        return
    outcome = "skipped" if hasattr(report, "wasxfail") else report.outcome
    write(report.nodeid, outcome, reason_of(report))


def pytest_collectreport(report):
    if report.outcome == "failed":
        write(report.nodeid, "failed", report.longrepr)


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    """Sets the option of numba-cuda's test cases, because its wheel lacks the file that does so."""
    request.cls._dump_failed_filechecks = False
