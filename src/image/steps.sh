# SPDX-License-Identifier: Apache-2.0
# The beginning of the script that does the steps of a Dockerfile as root of a sandbox (dockerfile_script.c). Any /bin/sh with the
# usual small programs, those of busybox too.
#
# What a step changes of variables stays in its subshell; names that begin with c_ are ours.
c_top=/.caisson-build
c_home=/home/user
c_dir=/
c_user=root
umask 022
cd /

c_say() { # what a person reads: one line
	printf '%s\n' "$1"
}

c_fail() { # LINE TEXT: ends the build
	printf '%s:%s: %s\n' "$c_name" "$1" "$2" >&2
	exit 1
}

# The columns of /etc/passwd of NAME or number $1: uid, gid, home, name.
c_account() {
	while IFS=: read -r c_n c_x c_u c_g c_y c_h c_z; do
		if [ "$c_n" = "$1" ] || [ "$c_u" = "$1" ]; then
			c_uid=$c_u c_gid=$c_g HOME=$c_h c_login=$c_n
			return 0
		fi
	done </etc/passwd
	return 1
}

# Becomes the command, as the user of the steps. Only in a subshell.
c_exec() {
	c_login=${c_user%%:*} c_group=
	case $c_user in *:*) c_group=${c_user#*:} ;; esac
	case $c_login in
	root | 0)
		export HOME=/root
		exec "$@" </dev/null
		;;
	esac
	if c_account "$c_login"; then
		export HOME
		[ -n "$c_group" ] && c_gid=$c_group
	else
		case $c_login in '' | *[!0-9]*) printf "USER %s: there is no such user\n" "$c_login" >&2; exit 1 ;; esac
		c_uid=$c_login c_gid=${c_group:-0}
	fi
	if command -v setpriv >/dev/null 2>&1; then
		exec setpriv --reuid "$c_uid" --regid "$c_gid" --clear-groups -- "$@" </dev/null
	fi
	exec su -m -s /bin/sh "$c_login" -c 'exec "$0" "$@"' "$@" </dev/null
}

c_workdir() { # PATH
	case $1 in /*) c_dir=$1 ;; *) c_dir=${c_dir%/}/$1 ;; esac
	mkdir -p -- "$c_dir" && cd "$c_dir"
}

# The address $1 into the file $2.
c_get() {
	if command -v curl >/dev/null 2>&1; then
		curl -fsSL -o "$2" -- "$1"
	elif command -v wget >/dev/null 2>&1; then
		wget -q -O "$2" -- "$1"
	elif command -v python3 >/dev/null 2>&1; then
		python3 -c 'import sys, urllib.request as r; r.urlretrieve(sys.argv[1], sys.argv[2])' "$1" "$2"
	else
		echo "ADD of an address needs curl, wget or python3 in the image" >&2
		return 1
	fi
}

# Brings what lies in the folder $c_stage to $c_to, with the owner and mode that the step names. A folder that is there keeps its own;
# one that is not becomes as the source is, if $1 is "folder".
c_place() {
	chown -hR "$c_owner" "$c_stage" || return 1
	[ -z "$c_mode" ] || chmod -R "$c_mode" "$c_stage" || return 1
	c_to=${c_to%/}
	if [ "$1" = folder ] && [ ! -e "$c_to/." ]; then
		mkdir -p -- "${c_to%/*}/" && cp -a "$c_stage" "$c_to"
		return
	fi
	mkdir -p -- "$c_to/" || return 1
	for c_entry in "$c_stage"/* "$c_stage"/.[!.]* "$c_stage"/..?*; do
		[ -e "$c_entry" ] || [ -L "$c_entry" ] || continue
		cp -a "$c_entry" "$c_to/" || return 1
	done
}

# One source: a file or folder. A folder means what is in it.
c_one() {
	c_to=$c_target
	rm -rf "$c_stage"
	mkdir "$c_stage" || return 1
	if [ -d "$1" ]; then
		cp -a "$1/." "$c_stage/" || return 1
		c_place folder
		return
	fi
	if [ -n "$c_unpacks" ] && [ -s "$1" ] && tar -tf "$1" >/dev/null 2>&1; then
		tar -xf "$1" -C "$c_stage" || return 1
		c_place file
		return
	fi
	case $c_target in
	*/ | */.) c_as=${1##*/} ;;
	*)
		if [ -d "$c_target" ] || [ "$c_many" = many ]; then
			c_as=${1##*/}
		else
			c_as=${c_target##*/} c_to=${c_target%/*}/
		fi
		;;
	esac
	cp -pL -- "$1" "$c_stage/$c_as" || return 1
	c_place file
}

# COPY and ADD. FROM: the folder that sources are seen from. MANY: "many" if the step has several. UNPACKS: archives are
# unpacked, unless it is "".
c_put() { # FROM OWNER MODE MANY UNPACKS TARGET SOURCE...
	c_from=$1 c_owner=$2 c_mode=$3 c_many=$4 c_unpacks=$5 c_target=$6
	shift 6
	c_stage=$c_top/stage
	case $c_owner in *:*) ;; *) c_owner=$c_owner:$c_owner ;; esac
	case $c_target in /*) ;; *) c_target=${c_dir%/}/$c_target ;; esac
	IFS=
	for c_source; do
		c_found=
		# A pattern that fits nothing stays as it is, and is then looked for as a name.
		for c_path in $c_from/${c_source#/}; do
			[ -e "$c_path" ] || [ -L "$c_path" ] || continue
			c_found=1
			c_one "$c_path" || return 1
		done
		[ -n "$c_found" ] || { printf '%s: there is no such file to copy\n' "$c_source" >&2; return 1; }
	done
}

c_add() { # OWNER MODE CHECKSUM TARGET ADDRESS
	c_owner=$1 c_mode=${2:-600} c_target=$4 c_unpacks='' c_many=one
	c_stage=$c_top/stage c_file=${5##*/}
	c_file=$c_top/got/${c_file%%\?*}
	case $c_owner in *:*) ;; *) c_owner=$c_owner:$c_owner ;; esac
	case $c_target in /*) ;; *) c_target=${c_dir%/}/$c_target ;; esac
	case $c_file in */) echo "ADD $5: no name for the file" >&2; return 1 ;; esac
	rm -rf "$c_top/got"
	mkdir "$c_top/got" && c_get "$5" "$c_file" || return 1
	if [ -n "$3" ] && [ "$(sha256sum "$c_file" | cut -d' ' -f1)" != "${3#sha256:}" ]; then
		echo "ADD $5: the checksum is another one" >&2
		return 1
	fi
	c_one "$c_file"
}

# The files that later stages copy from this one.
c_leave() { # ARCHIVE SOURCE...
	c_archive=$1
	shift
	c_list=$c_top/leave
	: >"$c_list"
	IFS=
	for c_source; do
		for c_path in /${c_source#/}; do
			[ -e "$c_path" ] || [ -L "$c_path" ] || continue
			printf '%s\n' "${c_path#/}" >>"$c_list"
		done
	done
	tar -cf "$c_archive" -C / -T "$c_list"
}

# The archive NAME of the workspace becomes the folder NAME.
c_take() {
	mkdir -p "$c_top/$1" && tar -xpf "$c_home/.caisson-$1.tar" -C "$c_top/$1" && rm -f "$c_home/.caisson-$1.tar"
}

# Takes the files out of the build context that the rules of .dockerignore name: an awk program, which prints names.
c_ignore() {
	cd "$c_top/context" || return 1
	command -v awk >/dev/null 2>&1 || { echo ".dockerignore needs awk in the image" >&2; return 1; }
	find . ! -name . | cut -c3- | awk "$1" | sort -r | while IFS= read -r c_path; do
		if [ -d "$c_path" ] && [ ! -L "$c_path" ]; then
			rmdir -- "$c_path" 2>/dev/null || :
		else
			rm -f -- "$c_path"
		fi
	done
	cd /
}

rm -rf "$c_top"
mkdir -m 700 "$c_top" || exit 1
trap 'rm -rf "$c_top"' EXIT
