#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run by mmdebstrap's customize hook, on the host side, with the new root file system as $1 and
# CAISSON_PRELOAD (modules, blank separated) in the environment. Makes an installed Debian into a
# sandbox image, then proves from inside that it works; a failure here fails the build.
# Ownership, set-uid bits, capabilities, device nodes, mount points, the user `sandbox` and what the
# package tools leave behind are not handled here: `caisson image build` sees to all of them while it
# unpacks the result.
set -eu

root=$1
here=$(dirname "$(readlink -f "$0")")
mpl=/opt/caisson/mpl

say()
{
	echo "caisson: $*" >&2
}

inside()
{
	chroot "$root" env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/tmp LANG=C.UTF-8 \
		PYTHONDONTWRITEBYTECODE=1 "$@"
}

ln -sf python3 "$root/usr/bin/python"
echo 'LANG=C.UTF-8' >"$root/etc/default/locale"

if [ -f "$root/etc/matplotlibrc" ]; then
	say "chart defaults and font list"
	mkdir -p "$root$mpl"
	# Both are matplotlib's template of all defaults, so the lines are changed where they stand.
	# There is no display; and what the first font lacks is taken glyph by glyph from the next.
	sed -i -E -e 's/^#* ?backend:.*/backend: Agg/' \
		-e 's/^#* ?font\.family:.*/font.family: DejaVu Sans, WenQuanYi Micro Hei/' \
		"$root/etc/matplotlibrc" "$root/usr/share/matplotlib/mpl-data/matplotlibrc"
	inside MPLCONFIGDIR=$mpl python3 - <"$here/fontlist.py"
	chmod -R a+rX "$root$mpl"
fi

say "byte code"
# Packages whose files are partly excluded may leave orphans behind; what is missing is made now,
# since a read-only root can never be given it later. -q -q: a package may ship templates that
# only look like Python.
inside python3 -m compileall -q -q -j 2 /usr/lib/python3/dist-packages >&2 || true

say "trying it from inside"
# shellcheck disable=SC2086 # one module an argument
inside MPLCONFIGDIR=/tmp/mpl python3 - ${CAISSON_PRELOAD:-} <"$here/verify.py" >&2
# Not /tmp/*: mmdebstrap still has files of its own there.
rm -rf "$root/tmp/mpl"
