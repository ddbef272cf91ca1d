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

# A .pyc is valid while its source has the same size and second of change (PEP 552). A program that edits a module of its own twice
# within a second would get the old one, so modules of the workspace are compiled anew each time.
for file in "$root"/etc/python3*/sitecustomize.py; do
	cat >>"$file" <<-'EOF'

	# Added by this image.
	from _frozen_importlib_external import SourceFileLoader as _Loader
	def _cache(self, source, bytecode, data, _original=_Loader._cache_bytecode):
	    if not source.startswith(('/mnt/data/', '/app/results/', '/tmp/')) or '/site-packages/' in source:
	        _original(self, source, bytecode, data)
	_Loader._cache_bytecode = _cache
	del _Loader, _cache
	EOF
done

if [ -d "$root/usr/lib/locale" ]; then
	say "locales"
	inside python3 - /usr/lib/locale <"$here/locales.py"
fi

# Of the fonts for the world's scripts: one face each of those that many people write.
noto=$root/usr/share/fonts/truetype/noto
if [ -d "$noto" ]; then
	for script in Devanagari Bengali Tamil Telugu Kannada Malayalam Gujarati Gurmukhi Oriya Sinhala Thai Lao Khmer Myanmar Georgian Armenian Ethiopic \
		Hebrew Arabic Thaana NKo Tifinagh Cherokee Symbols Symbols2; do
		mv "$noto/NotoSans$script-Regular.ttf" "$noto/NotoSans$script.kept"
	done
	mv "$noto/NotoSerifTibetan-Regular.ttf" "$noto/NotoSerifTibetan.kept"
	find "$noto" -name '*.ttf' -delete
	for file in "$noto"/*.kept; do
		mv "$file" "${file%.kept}-Regular.ttf"
	done
fi

# Signs and emoji that no other font has, out of one with every letter of Unicode. reportlab reads no outlines of PostScript.
unifont=/usr/share/fonts/opentype/unifont
if [ -f "$root$unifont/unifont.otf" ]; then
	say "signs and emoji"
	inside python3 - "$unifont" /usr/share/fonts/truetype/unifont <"$here/signs.py"
	rm -r "$root$unifont"
fi

if [ -f "$root/etc/matplotlibrc" ]; then
	say "chart defaults and font list"
	mkdir -p "$root$mpl"
	# Both are matplotlib's template of all defaults, so the line is changed where it stands: there is no display.
	sed -i -E -e 's/^#* ?backend:.*/backend: Agg/' \
		"$root/etc/matplotlibrc" "$root/usr/share/matplotlib/mpl-data/matplotlibrc"
	plot=usr/lib/python3/dist-packages/matplotlib
	cp "$here/matplotlib_wide.py" "$root/$plot/wide.py"
	chmod 644 "$root/$plot/wide.py"
	for call in 'font_manager:use_fonts(sys.modules[__name__])' 'text:use_order(Text)' 'pyplot:use_files(sys.modules[__name__])' 'style/core:use_old_names(library)'; do
		printf '\n# Added by this image: see wide.py.\nfrom matplotlib import wide\nwide.%s\n' "${call#*:}" >>"$root/$plot/${call%%:*}.py"
		touch -d @1000000000 "$root/$plot/${call%%:*}.py"
	done
	touch -d @1000000000 "$root/$plot/wide.py"
	inside MPLCONFIGDIR=$mpl python3 - <"$here/fontlist.py"
	chmod -R a+rX "$root$mpl"
fi

# Progress bars of notebooks need widgets, which are not here: they are text.
tqdm=$root/usr/lib/python3/dist-packages/tqdm/notebook.py
if [ -f "$tqdm" ]; then
	printf '\n# Added by this image.\nif IProgress is None:\n    from .std import tqdm, trange\n    tqdm_notebook, tnrange = tqdm, trange\n' >>"$tqdm"
	touch -d @1000000000 "$tqdm"
fi

pdf=usr/lib/python3/dist-packages/reportlab/pdfbase
if [ -f "$root/$pdf/pdfmetrics.py" ]; then
	say "fonts of PDF documents"
	cp "$here/reportlab_wide.py" "$root/$pdf/wide.py"
	cat >>"$root/$pdf/pdfmetrics.py" <<-'END'

		# Added by this image: see wide.py.
		from reportlab.pdfbase import wide
		wide.use(sys.modules[__name__])
		del wide
	END
	for call in ttfonts:use_texts ../pdfgen/textobject:use_shapes; do
		printf '\n# Added by this image: see wide.py.\nimport sys\nfrom reportlab.pdfbase import wide\nwide.%s(sys.modules[__name__])\n' "${call#*:}" >>"$root/$pdf/${call%%:*}.py"
		touch -d @1000000000 "$root/$pdf/${call%%:*}.py"
	done
	chmod 644 "$root/$pdf/wide.py"
	# mmdebstrap gives files that are newer than the archive the archive's date: byte code made before would then be stale.
	touch -d @1000000000 "$root/$pdf/wide.py" "$root/$pdf/pdfmetrics.py"
fi

# Debian's packages bring extension modules for each Python that it supports; the image has one of them.
tag=$(inside python3 -c 'import sys; print(sys.implementation.cache_tag)')
find "$root/usr/lib/python3/dist-packages" -name '*.cpython-3*.so' ! -name "*.$tag-*" -delete

# git finds itself on PATH; its second copy has the links of the commands that are parts of it.
if [ -f "$root/usr/lib/git-core/git" ]; then
	ln -sf ../../bin/git "$root/usr/lib/git-core/git"
fi

# Debian's small vim is started as vi, and imitates the vi of 1976 unless it is told not to.
if [ -f "$root/usr/bin/vim.tiny" ]; then
	ln -sf vim.tiny "$root/usr/bin/vim"
	ln -sf vim.tiny "$root/usr/bin/vi"
	echo 'set nocompatible backspace=indent,eol,start ruler nomodeline' >"$root/etc/vim/vimrc.tiny"
fi

# A commit needs an author, and nobody in a sandbox has told git one.
if [ -f "$root/usr/bin/git" ]; then
	cat >"$root/etc/gitconfig" <<-'END'
		[user]
			name = Sandbox
			email = sandbox@localhost
		[init]
			defaultBranch = main
	END
fi

# A sandbox has a script of its own as /usr/local/bin/uv, which says what it cannot do without a network and else starts this one.
for program in uv uvx; do
	if [ -f "$root/usr/local/bin/$program" ]; then
		mv "$root/usr/local/bin/$program" "$root/usr/bin/"
	fi
done

# Each call of ffmpeg and ffprobe begins with twelve lines of how Debian built it: 500 tokens for a model. No setting leaves them out.
for program in ffmpeg ffprobe; do
	if [ -f "$root/usr/bin/$program" ]; then
		printf '#!/bin/sh\nexec /usr/bin/%s -hide_banner "$@"\n' "$program" >"$root/usr/local/bin/$program"
		chmod 755 "$root/usr/local/bin/$program"
	fi
done

# Debian requires 340 packages for npm: these are 110 MB of them, and no file of npm loads them. (Their scripts need them while they are installed.)
if [ -d "$root/usr/share/nodejs/npm" ]; then
	say "modules of npm"
	for module in @babel @types caniuse-lite core-js core-js-compat core-js-pure es-abstract eslint handlebars jschardet lodash lodash-cli lodash-es \
		neo-async regenerate-unicode-properties rxjs terser type-fest web-streams-polyfill webpack; do
		rm -rf "$root/usr/share/nodejs/$module"
	done
fi

say "byte code"
# Packages whose files are partly excluded may leave orphans behind; what is missing is made now,
# since a read-only root can never be given it later. -q -q: a package may ship templates that
# only look like Python.
inside python3 -m compileall -q -q -j 2 /usr/lib/python3/dist-packages >&2 || true
for file in "$root"/usr/lib/python3*/sitecustomize.py; do # it was changed above
	if [ -e "$file" ] || [ -L "$file" ]; then
		inside python3 -m compileall -q "${file#"$root"}" >&2
	fi
done

say "trying it from inside"
# shellcheck disable=SC2086 # one module an argument
inside MPLCONFIGDIR=/tmp/mpl python3 - ${CAISSON_PRELOAD:-} <"$here/verify.py" >&2
# Lists of the files of each package: nobody can install or remove any in a read-only root. mmdebstrap reads `format` itself.
find "$root/var/lib/dpkg/info" -type f ! -name format -delete
# Not /tmp/*: mmdebstrap still has files of its own there.
rm -rf "$root/tmp/mpl"
