#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Writes the C files of modules, each a wrapper that includes a file unchanged:
#
#     wrap.sh module OUT MODULE FILE...         a module's own source
#     wrap.sh governor OUT MODULE FILE NAME     an idle governor, registered as NAME
#     wrap.sh intree OUT MODULE FILE NAME       the same, in a kernel's own tree
#
# Rewrites a wrapper only if it changes, so that make rebuilds only what is necessary.
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

# Prints the symbols of torpor_core that the file contains.
needs() {
	for symbol in $(sed -n 's/.*\bX(\([a-z_]*\)).*/\1/p' "$symbols") tick_nohz_enabled; do
		if grep -qw "$symbol" "$file"; then
			printf '%s ' "$symbol"
		fi
	done
}

# Prints 1 if the file uses hrtimers, else 0.
has_timers() {
	grep -q '\bhrtimer_start' "$file" && echo 1 || echo 0
}

# Prints a MODULE_*() macro that a module needs and a built-in governor can lack.
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
