#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Inserts governors into a kernel's source tree, each with an option, or removes them:
#
#     intree.sh install LINUX PREFIX FILE...
#     intree.sh uninstall LINUX PREFIX FILE...
#
# All files go into one new folder; two files of the tree get one line each. Installing again updates
# them.
set -eu

action=$1 linux=$2 prefix=$3
shift 3

scripts=$(dirname "$0")
cpuidle=$linux/drivers/cpuidle
torpor=$cpuidle/governors/torpor
source='source "drivers/cpuidle/governors/torpor/Kconfig"'
subdir='obj-y += torpor/'

die() {
	echo "intree.sh: $*" >&2
	exit 2
}

uninstall() {
	sed -i "\\|^$source\$|d" "$cpuidle/Kconfig"
	sed -i "\\|^$subdir\$|d" "$cpuidle/governors/Makefile"
	rm -rf "$torpor"
}

# Adds a governor: its file, unchanged, the wrapper, and its option.
add() {
	name=$(basename "$1" .c)
	object=torpor_$(echo "$name" | tr .- __)
	option=CPU_IDLE_GOV_$(echo "$object" | tr '[:lower:]' '[:upper:]')

	cp "$1" "$torpor/"
	"$scripts/wrap.sh" intree "$torpor" "$object" "$1" "$prefix$name"
	echo "obj-\$(CONFIG_$option) += $object.o" >>"$torpor/Makefile"
	description=$(sed -n 's/^MODULE_DESCRIPTION("\(.*\)");$/\1/p' "$1")
	{
		printf '\nconfig %s\n' "$option"
		printf '\tbool "%s (%s)"\n' "$description" "$prefix$name"
		printf '\thelp\n'
		printf '\t  Used if chosen, by cpuidle.governor=%s on the command line or\n' "$prefix$name"
		printf '\t  in /sys/devices/system/cpu/cpuidle/current_governor.\n'
	} >>"$torpor/Kconfig"
}

install() {
	mkdir "$torpor"
	cp "$scripts/../compat/intree.h" "$scripts/../compat/hrtimer.h" "$torpor/"
	echo "# SPDX-License-Identifier: GPL-2.0-only" | tee "$torpor/Kconfig" >"$torpor/Makefile"
	printf '\nmenu "Governors of Torpor"\n\tdepends on CPU_IDLE\n' >>"$torpor/Kconfig"
	for file; do
		add "$file"
	done
	printf '\nendmenu\n' >>"$torpor/Kconfig"

	last=$(grep -n '^endmenu' "$cpuidle/Kconfig" | tail -n 1 | cut -d: -f1)
	sed -i "${last}i\\$source" "$cpuidle/Kconfig"
	echo "$subdir" >>"$cpuidle/governors/Makefile"
}

[ -f "$cpuidle/Kconfig" ] && [ -f "$cpuidle/governors/Makefile" ] ||
	die "$linux is no kernel's source tree: it has no drivers/cpuidle/governors/Makefile"
uninstall
[ "$action" = uninstall ] || install "$@"
