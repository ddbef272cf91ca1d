# SPDX-License-Identifier: Apache-2.0
"""What a zygote does before its forks, so that they need not: a table and a picture, as many runs make them. Runs in the
dictionary of zygote.py, before it."""
import io
import sys

EXERCISES = 4  # the interpreter specialises code that has run a few times


def exercise_table(pandas):
	table = pandas.DataFrame({'k': [i % 7 for i in range(100)], 'v': range(100)})
	table.groupby('k')['v'].mean().sum()
	table.merge(table.groupby('k').agg(total=('v', 'sum')).reset_index(), on='k').sort_values('total').head()
	str(table.describe())
	bundle_of(table.head())  # what a table shows as a last expression
	pandas.read_csv(io.StringIO(table.to_csv(index=False)))


def exercise_picture(plt, pandas):
	figure, (one, two) = plt.subplots(1, 2)
	one.bar(['a', 'b', 'c'], [1, 2, 3], label='bars')
	one.set(title='title', xlabel='x', ylabel='y')
	one.legend()
	if pandas:
		pandas.Series([1, 2, 3]).plot.bar(ax=two)
	two.plot([1, 2, 3], [1.5, 4, 9], 'o-', label='line')
	two.scatter([1, 2, 3], [3, 2, 1])
	two.grid(True)
	figure.tight_layout()
	figure.savefig(io.BytesIO(), format='png', dpi=80)


def exercise():
	"""Does a few times what many runs do with a table and a picture. The interpreter rewrites code that runs, and
	libraries fill their caches: forks share what is done here. Nothing of it can be seen but the modules that it
	imports."""
	pandas, plt = sys.modules.get('pandas'), sys.modules.get('matplotlib.pyplot')
	try:
		for _ in range(EXERCISES):
			if pandas:
				exercise_table(pandas)
			if plt:
				units = sys.modules['matplotlib.units'].registry
				before = dict(units)
				try:
					exercise_picture(plt, pandas)
				finally:
					plt.close('all')
					units.clear()
					units.update(before)  # plots of pandas change how dates are shown
	except BaseException as e:
		sys.stderr.write('zygote: exercise: %s\n' % e)
