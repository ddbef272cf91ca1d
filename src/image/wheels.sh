#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run by mmdebstrap on the host side, with the new root file system as $1: hands the folder of this script to wheels.py, which
# runs inside the root. CAISSON_WHEEL_DIR names a folder of wheels that is used instead of the package index.
set -eu

root=$1
here=$(dirname "$(readlink -f "$0")")
work=$root/tmp/caisson-wheels

echo "caisson: wheels of the package index" >&2
mkdir -m 755 "$work"
for file in pinned names excludes ca.pem wheels.py; do
	[ ! -f "$here/$file" ] || cp "$here/$file" "$work/"
done
if [ -n "${CAISSON_WHEEL_DIR:-}" ]; then
	mkdir -m 755 "$work/given"
	cp -- "$CAISSON_WHEEL_DIR"/*.whl "$work/given/" 2>/dev/null ||
		{ echo "E: wheels: $CAISSON_WHEEL_DIR (SANDBOX_PIP_WHEEL_DIR) has no wheel that this build can read" >&2 && exit 1; }
fi
chmod -R a+rX "$work"
# Nothing else of this machine's environment: it may name certificate files that the image does not have.
chroot "$root" env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/tmp LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 \
	"CAISSON_INDEX_URL=${CAISSON_INDEX_URL:-}" "https_proxy=${https_proxy:-}" "http_proxy=${http_proxy:-}" "no_proxy=${no_proxy:-}" \
	python3 -I /tmp/caisson-wheels/wheels.py /tmp/caisson-wheels
rm -rf "$work"
