# SPDX-License-Identifier: Apache-2.0
"""warm.py MODULE... - a Python without walls that has imported the modules. It reads one JSON object a line: {"code": ...} is run in
a fork, in /mnt/data; {"install": name} installs the package into a folder of its own before that. It answers {"status", "output"}."""
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback


def run(question):
	if 'install' in question:
		folder = tempfile.mkdtemp()
		subprocess.run([sys.executable, '-m', 'pip', 'install', '--quiet', '--no-cache-dir', '--target', folder, question['install']], check=True)
		sys.path.insert(0, folder)
	exec(compile(question['code'], '<string>', 'exec'), {'__name__': '__main__'})
	if 'install' in question:
		shutil.rmtree(folder)


def answer(question):
	reader, writer = os.pipe()
	pid = os.fork()
	if pid == 0:
		os.dup2(writer, 1)
		os.dup2(writer, 2)
		status = 0
		try:
			run(question)
		except BaseException:
			traceback.print_exc()
			status = 1
		sys.stdout.flush()
		os._exit(status)
	os.close(writer)
	with open(reader, encoding='utf-8', errors='replace') as f:
		output = f.read()
	return {'status': os.waitpid(pid, 0)[1], 'output': output}


for name in sys.argv[1:]:
	try:
		importlib.import_module(name)
	except ImportError:
		pass
os.chdir('/mnt/data')
print('ready', flush=True)
for line in sys.stdin:
	print(json.dumps(answer(json.loads(line))), flush=True)
