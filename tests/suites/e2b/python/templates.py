# SPDX-License-Identifier: Apache-2.0
"""Jobs of jobs.py that build templates. Their server has an image with Python and nothing else."""
import importlib.metadata
import os
import tempfile

import e2b
from e2b import Sandbox

VERSION = tuple(map(int, importlib.metadata.version('e2b').split('.')))
JOBS = []


def since(*version):
	return lambda do: JOBS.append((version, do)) or do


def add(job):
	for version, do in JOBS:
		job(since=version)(do)


def fails(template, name):
	try:
		e2b.Template.build(template, name)
	except e2b.exceptions.BuildException as error:
		return error
	raise AssertionError('the build did not fail')


def context():
	top = tempfile.mkdtemp()
	os.mkdir(os.path.join(top, 'app'))
	for name, text in (('app/main.py', 'print("main")\n'), ('app/data.txt', 'data'), ('requirements.txt', '')):
		with open(os.path.join(top, name), 'w') as out:
			out.write(text)
	return top


@since(2, 40)
def template_by_steps(s):
	lines = []
	t = (e2b.Template(file_context_path=context()).from_base_image().set_envs({'A': '1', 'B': 'b $A'}).copy('app', 'app')
		.copy('requirements.txt', '/tmp/').run_cmd('echo built $B; python3 app/main.py >out').run_cmd('mkdir /srv/w; id -un >/srv/w/who', user='root')
		.set_workdir('/srv/w').set_start_cmd('python3 -m http.server 8000', e2b.wait_for_port(8000)))
	info = e2b.Template.build(t, 'steps-%d:v1' % VERSION[1], on_build_logs=lambda line: lines.append(line.message))
	assert any('built b 1' in line for line in lines), lines
	with Sandbox.create('steps-%d:v1' % VERSION[1], timeout=60) as made:
		got = made.commands.run('pwd; cat who; cat ~/out ~/app/data.txt; echo " $B"; python3 -c "import urllib.request as u; print(u.urlopen(\'http://localhost:8000\').status)"').stdout
		assert got == '/srv/w\nroot\nmain\ndata b 1\n200\n', got
		assert made.get_info().template_id
	assert info.template_id


@since(2, 40)
def template_of_a_dockerfile(s):
	name = 'docker-%d' % VERSION[1]
	t = e2b.Template(file_context_path=context()).from_dockerfile('FROM e2bdev/base\nARG V=2\nENV W="w $V"\nWORKDIR /opt/app\nCOPY app .\nRUN echo "$W" >w \\\n  && id -un >>w\n')
	e2b.Template.build(t, name)
	with Sandbox.create(name, timeout=60) as made:
		assert made.commands.run('cat /opt/app/w; python3 /opt/app/main.py').stdout == 'w 2\nroot\nmain\n'


@since(2, 40)
def template_that_fails(s):
	t = e2b.Template().from_base_image().run_cmd('echo good').run_cmd('echo bad >&2; exit 7')
	error = fails(t, 'fails-%d' % VERSION[1])
	assert '7' in str(error), error


@since(2, 50)
def template_tags(s):
	name = 'tags-%d' % VERSION[1]
	e2b.Template.build(e2b.Template().from_base_image().run_cmd('echo 1 >n'), name)
	assert e2b.Template.exists(name) and not e2b.Template.exists(name + ':other')
	e2b.Template.assign_tags(name, ['first'])
	e2b.Template.build(e2b.Template().from_template(name).run_cmd('echo 2 >>n'), name)
	with Sandbox.create(name, timeout=60) as new, Sandbox.create(name + ':first', timeout=60) as old:
		assert (new.files.read('n'), old.files.read('n')) == ('1\n2\n', '1\n')
	e2b.Template.remove_tags(name, ['first'])
	assert not e2b.Template.exists(name + ':first')


@since(2, 40)
def template_goes_on_from_cached_steps(s):
	name = 'cached-%d' % VERSION[1]

	def build(text, forced=False, **more):
		lines, top = [], context()
		with open(os.path.join(top, 'app/data.txt'), 'w') as out:
			out.write(text)
		t = e2b.Template(file_context_path=top).from_base_image().set_envs({'A': name})
		t = t.skip_cache() if forced else t
		t = t.run_cmd('sleep 5.1; head -c 16 /dev/urandom | od -An -tx1 >~/random').copy('app', 'app')
		e2b.Template.build(t, name, on_build_logs=lambda line: lines.append(line.message), **more)
		with Sandbox.create(name, timeout=60) as made:
			random, data = made.files.read('random'), made.files.read('app/data.txt')
		assert data == text, data
		return [line for line in lines if line.startswith('CACHED')], random

	first, again, forced, anew = build('1'), build('2'), build('3', forced=True), build('4', skip_cache=True)
	assert first[0] == forced[0] == anew[0] == [], (first, forced, anew)
	assert len(again[0]) == 2 and again[1] == first[1], again
	assert len({first[1], forced[1], anew[1]}) == 3
