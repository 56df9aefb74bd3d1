#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Prints a folder with the part of a Debian kernel source package that Torpor can host (scheduler,
# timers, idle, frequency), and some device trees, fetching it if need be:
#
#     tests/kernel_sources.sh 6.1
#
# The folder is $TORPOR_KERNEL_SOURCES/linux-source-VERSION, by default below build/kernel-sources/
# of this repository, and stays. Fetching takes about 15 seconds and 140 MB of download, and 40 MB
# more for the lists of other suites if this machine's own have no such release.
# Exit 77: the package cannot be had here; the reason is on stderr.
set -eu

version=${1:?usage: tests/kernel_sources.sh VERSION, for example 6.1}
root=$(cd "$(dirname "$0")/.." && pwd)
home=${TORPOR_KERNEL_SOURCES:-$root/build/kernel-sources}
package=linux-source-$version
place=$home/$package

not_here() {
	echo "$package: $*" >&2
	exit 77
}

complete() {
	[ -d "$place/drivers/cpuidle/governors" ] && [ -f "$place/mm/internal.h" ] &&
		[ -f "$place/drivers/cpufreq/intel_pstate.c" ] &&
		[ -f "$place/arch/arm64/boot/dts/qcom/sm8250.dtsi" ]
}

if complete; then
	echo "$place"
	exit 0
fi

for tool in apt-get dpkg-deb tar xz; do
	command -v "$tool" >/dev/null || not_here "$tool is not on this machine"
done
mkdir -p "$home"

# Tests run side by side: one fetches, the others wait.
exec 9>"$home/.lock"
if command -v flock >/dev/null; then
	flock 9
	if complete; then
		echo "$place"
		exit 0
	fi
fi

work=$(mktemp -d "$home/.fetch-XXXXXX")
trap 'rm -rf "$work"' EXIT
# apt fetches as a user of its own, which must be able to write here.
chmod 755 "$work"
cd "$work"

download() {
	apt-get -qq -o APT::Sandbox::User=root "$@" download "$package" >apt.log 2>&1
}

# Releases that this machine's suites do not have: all of Debian's suites, in lists made here.
download_from_any_suite() {
	mkdir -p apt/lists/partial apt/archives/partial
	# From where this machine's own suites come.
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sort -u |
		while read -r place; do
			case $place in
			*security*) suites="bullseye-security bookworm-security trixie-security" ;;
			*) suites="trixie-backports forky sid experimental" ;;
			esac
			for suite in $suites; do
				echo "deb $place $suite main"
			done
		done >apt/sources.list
	set -- -o Dir::Etc::sourcelist="$PWD/apt/sources.list" -o Dir::Etc::sourceparts=- \
		-o Dir::State::lists="$PWD/apt/lists" -o Dir::Cache="$PWD/apt" \
		-o Acquire::Languages=none
	apt-get -qq -o APT::Sandbox::User=root "$@" update >apt.log 2>&1
	download "$@"
}

download || { apt-get -qq update >update.log 2>&1 && download; } || download_from_any_suite ||
	not_here "apt-get download failed: $(tail -n 1 apt.log)"

dpkg-deb -x ./*.deb unpacked
mkdir tree
tar -C tree --strip-components=1 -xf "unpacked/usr/src/$package.tar.xz" \
	"$package/Makefile" "$package/drivers/cpuidle" "$package/drivers/idle" \
	"$package/drivers/base" "$package/drivers/cpufreq" "$package/include" "$package/io_uring" \
	"$package/kernel" "$package/lib" "$package/mm" \
	"$package/arch/arm64/boot/dts/apple" "$package/arch/arm64/boot/dts/arm" \
	"$package/arch/arm64/boot/dts/exynos" "$package/arch/arm64/boot/dts/rockchip" \
	"$package/arch/arm64/boot/dts/qcom/sm8250.dtsi" \
	2>tar.log || true
# Not every release has every vendor's device trees.
[ -d tree/drivers/cpuidle/governors ] && [ -f tree/mm/internal.h ] &&
	[ -f tree/arch/arm64/boot/dts/qcom/sm8250.dtsi ] ||
	not_here "its tarball lacks files of CPU idle, the scheduler or device trees: $(tail -n 1 tar.log)"
# An older checkout may have left a folder with less in it, and somebody may be reading there.
if [ -d "$place" ]; then
	mv "$place" "$work/less"
fi
mv tree "$place"
echo "$place"
