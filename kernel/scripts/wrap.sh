#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Writes the C files that become modules, each around a file that stays where and as it is:
#
#     wrap.sh module OUT MODULE FILE...         a module's own source
#     wrap.sh governor OUT MODULE FILE NAME     an idle governor, offered as NAME
#     wrap.sh intree OUT MODULE FILE NAME       the same, in a kernel's own tree
#
# A wrapper is touched only if it changes, so make rebuilds no more than it must.
set -eu

kind=$1 out=$2 module=$3
shift 3
file=$1 name=
[ "$kind" = module ] || name=$2
symbols=$(dirname "$0")/../compat/symbols.h

die() {
	echo "wrap.sh: $*" >&2
	exit 2
}

# Prints the symbols that torpor_core looks up and the file names.
needs() {
	for symbol in $(sed -n 's/.*\bX(\([a-z_]*\)).*/\1/p' "$symbols") tick_nohz_enabled; do
		if grep -qw "$symbol" "$file"; then
			printf '%s ' "$symbol"
		fi
	done
}

# Whether the file sets timers of its own.
has_timers() {
	grep -q '\bhrtimer_start' "$file" && echo 1 || echo 0
}

# Governors that were always built in may lack what a module has to say of itself.
say() {
	grep -q "^MODULE_$1(" "$file" || echo "MODULE_$1(\"$2\");"
}

wrapper() {
	echo "// SPDX-License-Identifier: GPL-2.0-only"
	echo "/* Written by Torpor's kernel/scripts/wrap.sh. */"
	case $kind in
	module)
		printf '#include "%s"\n' "$@"
		;;
	governor)
		echo "#define TORPOR_NAME \"$name\""
		echo "#define TORPOR_NEEDS \"$(needs)\""
		echo "#define TORPOR_HAS_TIMERS $(has_timers)"
		echo "#include \"governor.h\""
		echo "#include \"$file\""
		echo "#include \"governor_end.h\""
		say DESCRIPTION "Idle governor"
		say LICENSE GPL
		;;
	intree)
		echo "#define TORPOR_NAME \"$name\""
		echo "#include \"intree.h\""
		echo "#include \"$(basename "$file")\""
		;;
	esac
}

[ -r "$file" ] || die "no file $file"
[ ${#name} -le 15 ] || die "$name: a governor's name has 15 characters at most, not ${#name}"

mkdir -p "$out"
wrapper "$@" >"$out/.$module.c"
if cmp -s "$out/.$module.c" "$out/$module.c"; then
	rm "$out/.$module.c"
else
	mv "$out/.$module.c" "$out/$module.c"
fi
