# SPDX-License-Identifier: Apache-2.0
"""What of the test suites runs in a sandbox (README.md). `unpack` once, then a run for every module.

Results are JSON lines in results/MODULE.jsonl: {"test", "end": start|pass|fail|skip, "why"}. A test
without an end is the one in which the process died.
"""

import contextlib
import errno
import importlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import threading
import traceback
import unittest
import venv
import zoneinfo

SITE = "/mnt/data/site"
RESULTS = "/mnt/data/results"
#: A virtual environment whose interpreter, isolated or not, and every sub-interpreter of it begin with SITE.
VENV = "/mnt/data/venv"
WHY_MAX = 2000
#: What a module looks for when it is imported, and takes for a fault when it is forbidden; without it, it goes on.
LACKING = {"test.test_socket": [(socket, "IPPROTO_UDPLITE")]}
#: What pytest is told of a package: its packages have no data files for tests.
OPTIONS = {"pandas": ["--no-strict-data-files"]}
#: Where the image has what a folder of SITE completes, when it is not among its packages.
HOMES = {"test": os.path.join(os.path.dirname(os.__file__), "test"), "zoneinfo": "/usr/share/zoneinfo"}
PACKAGES = "/usr/lib/python3/dist-packages"


def complete(folder, home):
    """Links into FOLDER what HOME has and FOLDER lacks, so that the two are one package."""
    os.makedirs(os.path.join(folder, "__pycache__"), exist_ok=True)  # compiled files are written, too
    mine = set(os.listdir(folder))
    for name in os.listdir(home):
        if name not in mine:
            os.symlink(os.path.join(home, name), os.path.join(folder, name))
    for name in mine:
        if os.path.isdir(os.path.join(folder, name)) and os.path.isdir(os.path.join(home, name)):
            complete(os.path.join(folder, name), os.path.join(home, name))


def unpack(names):
    """Unpacks the uploaded NAME.tar.gz of each of NAMES and makes one tree of them and the image."""
    os.makedirs(RESULTS, exist_ok=True)
    for name in names:
        with tarfile.open(f"/mnt/data/{name}.tar.gz") as t:
            t.extractall(SITE, filter="tar")
        os.unlink(f"/mnt/data/{name}.tar.gz")
    for name in os.listdir(SITE):
        home = HOMES.get(name, os.path.join(PACKAGES, name))
        if os.path.isdir(home):
            complete(os.path.join(SITE, name), home)


class Lines:
    """Writes a line at once: the process may not see the next one."""

    def __init__(self, module):
        self.file = open(os.path.join(RESULTS, module + ".jsonl"), "w", encoding="utf-8")
        self.pid = os.getpid()

    def add(self, test, end, why=""):
        if os.getpid() == self.pid:  # tests fork
            self.file.write(json.dumps({"test": test, "end": end, "why": why[-WHY_MAX:]}) + "\n")
            self.file.flush()


class Result(unittest.TestResult):
    def __init__(self, lines):
        super().__init__()
        self.lines = lines
        self.broken = {}
        self.partly = ""
        self.thread = ""
        threading.excepthook = self.thread_ended

    def thread_ended(self, args):
        """What a thread raised is the reason where the test itself only misses a result."""
        if args.exc_type is not SystemExit:
            self.thread = "".join(traceback.format_exception(args.exc_type, args.exc_value, args.exc_traceback))

    def startTest(self, test):
        super().startTest(test)
        self.broken.pop(test.id(), None)
        self.partly = self.thread = ""
        self.lines.add(test.id(), "start")

    def stopTest(self, test):
        super().stopTest(test)
        if test.id() in self.broken:
            self.lines.add(test.id(), "fail", self.broken.pop(test.id()))
        elif self.partly:  # parts that skip themselves leave a test without a word of its own
            self.lines.add(test.id(), "skip", self.partly)

    def bad(self, test, err):
        text = self._exc_info_to_string(err, test)
        if self.thread:
            text += "In a thread: " + self.thread
        if isinstance(test, unittest.TestCase):
            self.broken[test.id()] = text
        else:  # set-up of a class or a module
            self.lines.add(test.id(), "fail", text)

    addError = bad
    addFailure = bad

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.bad(test, err)

    def addSuccess(self, test):
        self.partly = ""
        self.lines.add(test.id(), "pass")

    def addExpectedFailure(self, test, err):
        self.lines.add(test.id(), "pass")

    def addUnexpectedSuccess(self, test):
        self.lines.add(test.id(), "fail", "unexpected success")

    def addSkip(self, test, reason):
        if isinstance(test, unittest.case._SubTest):
            self.partly = reason
        else:
            self.lines.add(test.id(), "skip", reason)


def flat(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite):
            yield from flat(t)
        else:
            yield t


def forgive_read_only(helper):
    """HELPER (test.support.os_helper) removes what tests may have left from every folder of sys.path: where all is read-only, the
    kernel says so instead of that there is no such file."""
    unlink = helper._unlink

    def forgiving(name):
        try:
            unlink(name)
        except OSError as e:
            if e.errno != errno.EROFS or os.path.lexists(name):
                raise
    helper._unlink = forgiving


def run_unittest(module, only, lines):
    """The module as the standard library's own runner would run it, without optional resources."""
    from test import support
    from test.support import os_helper
    support.use_resources = {}
    forgive_read_only(os_helper)
    for where, name in (it for of, its in LACKING.items() if module.startswith(of) for it in its):
        delattr(where, name)
    try:
        suite = unittest.defaultTestLoader.loadTestsFromName(module)
    except unittest.SkipTest as e:
        return lines.add(module, "skip", str(e))
    if only:
        suite = unittest.TestSuite(t for t in flat(suite) if t.id() in only)
    return suite.run(Result(lines))


class Plugin:
    """Outcomes of pytest in the same form."""

    def __init__(self, module, lines):
        self.module = module
        self.lines = lines

    def name(self, nodeid):
        return self.module + "::" + nodeid.partition("::")[2]

    def pytest_runtest_logstart(self, nodeid):
        self.lines.add(self.name(nodeid), "start")

    def pytest_runtest_logreport(self, report):
        name = self.name(report.nodeid)
        if hasattr(report, "wasxfail"):
            if report.when == "call" or report.skipped:
                self.lines.add(name, "pass")
        elif report.failed:
            self.lines.add(name, "fail", str(report.longrepr))
        elif report.skipped:
            self.lines.add(name, "skip", str(report.longrepr[2] if isinstance(report.longrepr, tuple)
                                             else report.longrepr))
        elif report.when == "call":
            self.lines.add(name, "pass")

    def pytest_collectreport(self, report):
        if report.failed:
            self.lines.add(self.module, "fail", str(report.longrepr))


def run_pytest(module, only, lines):
    import pytest
    os.environ["PYTHONPATH"] = SITE  # of what tests start
    # By its path and no import of the package before: pytest rewrites what it imports.
    path = os.path.join(SITE, *module.split(".")) + ".py"
    chosen = [path + "::" + t.partition("::")[2] for t in only] or [path]
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", SITE, "-c", "/dev/null", "-W", "ignore",
                            "--basetemp", os.path.abspath("tmp"), *OPTIONS.get(module.partition(".")[0], ()), *chosen], plugins=[Plugin(module, lines)])
    if code not in (0, 1):
        lines.add(module, "fail", f"pytest ended with {code}: {said.getvalue()}")


def find_site():
    """SITE comes first; what a warm interpreter has loaded already is told where its tests are."""
    sys.path.insert(0, SITE)
    importlib.invalidate_caches()
    for name, module in list(sys.modules.items()):
        more = os.path.join(SITE, *name.split("."))
        if getattr(module, "__path__", None) and os.path.isdir(more):
            module.__path__.insert(0, more)
    zones = os.path.join(SITE, "zoneinfo")
    if os.path.isdir(zones):  # names such as US/Pacific, which an image need not have
        os.environ["PYTZ_TZDATADIR"] = zones
        zoneinfo.reset_tzpath([zones])


def run_venv(module, only):
    """What starts interpreters that must find the tests themselves runs in the one of VENV, as unittest. Ends with its status."""
    if not os.path.isdir(VENV):
        venv.create(VENV, symlinks=True)
        with open(sysconfig.get_path("purelib", "venv", {"base": VENV}) + "/tests.pth", "w", encoding="utf-8") as f:
            f.write(f"import sys; sys.path.insert(0, {SITE!r})\n")
    code = f"import sys; sys.path.append('/mnt/data'); import inside; inside.run({module!r}, 'unittest', {list(only)!r})"
    status = subprocess.run([os.path.join(VENV, "bin/python"), "-c", code], check=False).returncode
    sys.exit(f"the interpreter of the tests ended with {status}" if status else 0)


def run(module, how, only=()):
    """Runs MODULE (of these tests ONLY, or all); the status is 0 whenever it came to its end."""
    if how == "venv":
        run_venv(module, only)
    find_site()
    lines = Lines(module)
    folder = tempfile.mkdtemp(dir="/mnt/data")
    os.chdir(folder)
    try:
        {"unittest": run_unittest, "pytest": run_pytest}[how](module, list(only), lines)
    finally:
        if os.getpid() == lines.pid:
            os.chdir("/")
            shutil.rmtree(folder, ignore_errors=True)
    lines.add(module, "end")
