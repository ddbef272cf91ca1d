# SPDX-License-Identifier: Apache-2.0
"""pip in a sandbox without a network: what it does with files that are there (its package has no tests of its own)."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import venv
import zipfile

BACKEND = '''
import zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "built-1.0-py3-none-any.whl"
    with zipfile.ZipFile(folder + "/" + name, "w") as z:
        z.writestr("built.py", "who = 'built here'")
        z.writestr("built-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: built\\nVersion: 1.0\\n")
        z.writestr("built-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nGenerator: own\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        z.writestr("built-1.0.dist-info/RECORD", "")
    return name
'''


def make_wheel(folder, name, version, needs=()):
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(f"{folder}/{name}-{version}-py3-none-any.whl", "w") as z:
        z.writestr(f"{name}.py", f"version = '{version}'\ndef main():\n    print('{name} runs')\n")
        z.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(f"Requires-Dist: {n}\n" for n in needs))
        z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: own\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(f"{info}/entry_points.txt", f"[console_scripts]\nrun-{name} = {name}:main\n")
        z.writestr(f"{info}/RECORD", "")


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)


class Pip(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.getcwd())
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        make_wheel(self.folder, "alpha", "1.0")
        make_wheel(self.folder, "alpha", "2.0", ["beta>=1"])
        make_wheel(self.folder, "beta", "1.5")

    def pip(self, *words, python=sys.executable):
        r = run(python, "-m", "pip", "--disable-pip-version-check", *words)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        return r.stdout

    def install(self, *words, **more):
        return self.pip("install", "--no-index", "--find-links", self.folder, *words, **more)

    def test_environment(self):
        place = f"{self.folder}/env"
        venv.create(place, with_pip=True)
        python = f"{place}/bin/python"
        self.install("alpha", python=python)
        self.assertEqual(run(f"{place}/bin/run-alpha").stdout, "alpha runs\n")
        self.assertEqual(self.pip("freeze", python=python).split(), ["alpha==2.0", "beta==1.5"])
        self.install("alpha==1.0", python=python)
        self.pip("uninstall", "-y", "beta", python=python)
        self.assertEqual(self.pip("freeze", python=python).split(), ["alpha==1.0"])
        self.assertEqual(run(python, "-c", "import alpha; print(alpha.version)").stdout, "1.0\n")

    def test_folder(self):
        place = f"{self.folder}/target"
        self.install("--target", place, "alpha")
        r = run(sys.executable, "-c", f"import sys; sys.path.insert(0, {place!r}); import alpha, beta; print(alpha.version, beta.version)")
        self.assertEqual(r.stdout, "2.0 1.5\n", r.stderr)

    def test_own_packages_of_the_user(self):
        self.install("--user", "--break-system-packages", "beta")
        self.addCleanup(self.pip, "uninstall", "-y", "--break-system-packages", "beta")
        self.assertEqual(run(sys.executable, "-c", "import beta; print(beta.version)").stdout, "1.5\n")

    def test_build(self):
        source = f"{self.folder}/source"
        os.makedirs(source)
        with open(f"{source}/backend.py", "w") as f:
            f.write(BACKEND)
        with open(f"{source}/pyproject.toml", "w") as f:
            f.write("[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n")
        self.pip("wheel", "--no-index", "--wheel-dir", f"{self.folder}/wheels", source)
        self.assertEqual(os.listdir(f"{self.folder}/wheels"), ["built-1.0-py3-none-any.whl"])

    def test_questions(self):
        names = {p["name"] for p in json.loads(self.pip("list", "--format", "json"))}
        self.assertIn("pip", names)
        self.assertIn("Location: ", self.pip("show", "pip"))

    def test_without_a_network_it_says_so(self):
        r = run(sys.executable, "-m", "pip", "install", "nothing")
        self.assertEqual(r.returncode, 1)
        self.assertIn("this sandbox has no network", r.stderr)
