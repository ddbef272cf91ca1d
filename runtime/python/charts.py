# SPDX-License-Identifier: Apache-2.0
"""What a figure of matplotlib shows, as data, so that a client can draw it anew: the axes with their labels, ticks and scales, and
the lines, points, bars, wedges or boxes that are in them. Only runs whose client wants records of exceptions (RT_ERRORS)
keep it, as a part of the record of the figure.

Runs in the child that draws the picture (display.py), after drawing: ticks have their texts then. Everything is read from what
the figure holds, so a program pays nothing while it plots."""
CHART = 'application/vnd.caisson.chart+json'
CHART_POINTS = 10000  # of a figure; one with more has no chart, because a part of it would look like all


class TooMany(Exception):
	pass


def chart_of(figure):
	"""None: the figure has no axes, or more than CHART_POINTS."""
	left = [CHART_POINTS]
	try:
		found = [axes_chart(axes, left) for axes in figure.get_axes() if axes.get_label() != '<colorbar>' and axes.get_visible()]
	except TooMany:
		return None
	if len(found) < 2:
		return found[0] if found else None
	title = getattr(figure, '_suptitle', None)
	return {'type': 'superchart', 'title': chart_text(title.get_text() if title is not None else ''), 'elements': found}


def axes_chart(axes, left):
	for kind, elements_of in ('pie', wedges_of), ('box_and_whisker', boxes_of), ('bar', bars_of), ('line', lines_of), ('scatter', points_of):
		elements, turned = elements_of(axes, left)
		if elements:
			break
	else:
		bare = not (axes.patches or axes.artists or axes.collections or axes.images or axes.texts or axes.lines)
		kind, elements, turned = 'line' if bare else 'unknown', [], False  # as E2B names axes without anything in them
	chart = {'type': kind, 'title': chart_text(axes.get_title() or axes.get_title('left') or axes.get_title('right')), 'elements': elements}
	if kind in ('pie', 'unknown'):
		return chart
	for name, axis in zip('yx' if turned else 'xy', (axes.xaxis, axes.yaxis)):  # x is the axis of the categories
		label = chart_text(axis.get_label().get_text())
		chart[name + '_label'], chart[name + '_unit'] = label, unit_of(label)
		if kind in ('line', 'scatter'):
			scale = scale_of(axis)
			read = reader_of(axis, scale)
			chart.update({name + '_scale': scale, name + '_ticks': [read(at) for at in axis.get_ticklocs()],
			              name + '_tick_labels': [one.get_text() for one in axis.get_ticklabels()]})
	return chart


# Texts and numbers ------------------------------------------------------------------------------------


def chart_text(text):
	return text or None


def unit_of(label):
	"""What stands in brackets at the end of a label."""
	import re
	found = re.search(r'[(\[]([^()\[\]]+)[)\]]\s*$', label or '')
	return found[1] if found else None


def own_label(artist, kind, number):
	label = str(artist.get_label())
	return '%s %d' % (kind, number) if label.startswith('_') or not label else label


def chart_number(value):
	"""None for what JSON has no number for."""
	value = float(value)
	return value if value - value == 0 else None


def scale_of(axis):
	kind = type(axis.get_converter() if hasattr(axis, 'get_converter') else axis.converter).__name__
	return 'categorical' if 'Category' in kind else 'datetime' if 'Date' in kind else axis.get_scale()


def reader_of(axis, scale):
	"""How a place on the axis is told: by its category or time, if it has one."""
	if scale == 'datetime':
		from matplotlib.dates import num2date
		return lambda value: num2date(value).isoformat()
	if scale != 'categorical':
		return chart_number
	names = {place: str(name) for name, place in getattr(axis.units, '_mapping', {}).items()}
	return lambda value: names.get(value, chart_number(value))


def label_at(axis, place, reach):
	"""The text of the tick at PLACE, or the number."""
	ticks = [(abs(at - place), one.get_text()) for at, one in zip(axis.get_ticklocs(), axis.get_ticklabels()) if one.get_text()]
	distance, text = min(ticks, default=(reach, ''))
	return text if distance < reach else '%g' % place


# What is in the axes ----------------------------------------------------------------------------------


def take_points(left, n):
	left[0] -= n
	if left[0] < 0:
		raise TooMany


def wedges_of(axes, left):
	"""matplotlib keeps angles with 24 bits: what is behind the fourth place is not the program's."""
	from matplotlib.patches import Wedge
	found = [one for one in axes.patches if isinstance(one, Wedge)]
	take_points(left, len(found))
	return [{'label': own_label(one, 'Wedge', i), 'angle': round(float(one.theta2 - one.theta1), 4), 'radius': chart_number(one.r)}
	        for i, one in enumerate(found)], False


def bars_of(axes, left):
	found = [one for one in axes.containers if type(one).__name__ == 'BarContainer' and len(one)]
	turned = bool(found) and getattr(found[0], 'orientation', None) == 'horizontal'
	elements = []
	for number, container in enumerate(found):
		take_points(left, len(container))
		group = own_label(container, 'Group', number)
		for bar in container:
			at, width, value = (bar.get_y(), bar.get_height(), bar.get_width()) if turned else (bar.get_x(), bar.get_width(), bar.get_height())
			label = label_at(axes.yaxis if turned else axes.xaxis, at + width / 2, max(abs(width), 1e-9))
			elements.append({'label': label, 'group': group, 'value': chart_number(value)})
	return elements, turned


def path_of(artist):
	"""The corners of a line or patch as the program gave them, without what closes the path."""
	path = artist.get_path()
	if hasattr(artist, 'get_patch_transform'):
		path = artist.get_patch_transform().transform_path(path)
	return [(float(x), float(y)) for (x, y), code in zip(path.vertices, path.codes if path.codes is not None else [0] * len(path.vertices))
	        if code != 79]  # CLOSEPOLY


def boxes_of(axes, left):
	"""boxplot() leaves lines and patches behind. A box is one that has a whisker at the middle of two opposite sides."""
	from matplotlib.patches import PathPatch
	paths = [path_of(one) for one in axes.lines if one.get_transform() == axes.transData]
	shapes = [path_of(one) for one in axes.patches if isinstance(one, PathPatch)] + [one for one in paths if len(one) in (5, 11)]
	for turned in False, True:
		found = boxes_in(shapes, paths, turned)
		if found:
			take_points(left, sum(6 + len(one['outliers']) for one in found.values()))
			axis = axes.yaxis if turned else axes.xaxis
			return [{'label': label_at(axis, place, reach), **box} for (place, reach, *ends), box in found.items()], turned
	return [], False


def boxes_in(shapes, paths, turned):
	"""By their place and ends: the same box, drawn twice, is one."""
	found = {}

	def flat(path):
		return [(y, x) for x, y in path] if turned else path

	paths = [flat(path) for path in paths]
	for shape in map(flat, shapes):
		xs, ys = zip(*shape)
		if len(shape) not in (4, 5, 10, 11) or min(xs) == max(xs):
			continue
		middle, reach = (min(xs) + max(xs)) / 2, max(xs) - min(xs)
		near = 1e-9 * (1 + abs(middle))
		upright = [sorted(y for x, y in path) for path in paths if len(path) == 2 and all(abs(x - middle) <= near for x, y in path)]
		level = [path[0][1] for path in paths if len(path) == 2 and path[0][1] == path[1][1]
		         and min(xs) - near <= min(path)[0] and max(path)[0] <= max(xs) + near]
		for median in level:  # or a cap, beyond which there is no whisker
			below = max(([end, start] for start, end in upright if end in ys and end <= median), default=None)
			above = min(([start, end] for start, end in upright if start in ys and start >= median), default=None)
			if below and above:
				break
		else:
			continue
		low, high = below[1], above[1]
		outliers = sorted({y for path in paths for x, y in path if len(path) != 2 and abs(x - middle) <= near and not low <= y <= high})
		found[middle, reach, *below, *above] = {
			'min': low, 'first_quartile': below[0], 'median': median, 'third_quartile': above[0], 'max': high, 'outliers': outliers}
	return found


def told_points(axes, pairs):
	read_x, read_y = (reader_of(axis, scale_of(axis)) for axis in (axes.xaxis, axes.yaxis))
	return [[read_x(x), read_y(y)] for x, y in pairs]


def lines_in(axes, joined):
	"""Lines that the program gave points for; axhline() and its like span the axes."""
	return [one for one in axes.lines if one.get_transform() == axes.transData and (one.get_linestyle() not in ('None', '', ' ')) == joined]


def lines_of(axes, left):
	elements = []
	for number, line in enumerate(lines_in(axes, True)):
		pairs = list(zip(line.get_xdata(orig=False), line.get_ydata(orig=False)))
		take_points(left, len(pairs))
		elements.append({'label': own_label(line, 'Line', number), 'points': told_points(axes, pairs)})
	return elements, False


def points_of(axes, left):
	elements = []
	for one in [one for one in axes.collections if type(one).__name__ == 'PathCollection'] + lines_in(axes, False):
		pairs = one.get_offsets() if hasattr(one, 'get_offsets') else list(zip(one.get_xdata(orig=False), one.get_ydata(orig=False)))
		take_points(left, len(pairs))
		elements.append({'label': own_label(one, 'Dataset', len(elements)), 'points': told_points(axes, pairs)})
	return elements, False
