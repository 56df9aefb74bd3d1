#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Prints a folder with the CPU-idle part of a Debian kernel source package, its scheduler, and some
# device trees, fetching it if need be:
#
#     tests/kernel_sources.sh 6.1
#
# The folder is $TORPOR_KERNEL_SOURCES/linux-source-VERSION, by default below build/kernel-sources/
# of this repository, and stays. Fetching takes about 15 seconds and 140 MB of download.
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
	[ -d "$place/drivers/cpuidle/governors" ] && [ -f "$place/kernel/sched/fair.c" ] &&
		[ -d "$place/arch/arm64/boot/dts/rockchip" ]
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

fetch() {
	apt-get -qq -o APT::Sandbox::User=root download "$package" >apt.log 2>&1
}
fetch || { apt-get -qq update >update.log 2>&1 && fetch; } ||
	not_here "apt-get download failed: $(tail -n 1 apt.log)"

dpkg-deb -x ./*.deb unpacked
mkdir tree
tar -C tree --strip-components=1 -xf "unpacked/usr/src/$package.tar.xz" \
	"$package/drivers/cpuidle" "$package/drivers/idle" "$package/include/linux/cpuidle.h" \
	"$package/kernel/sched" "$package/include/linux/sched.h" \
	"$package/arch/arm64/boot/dts/apple" "$package/arch/arm64/boot/dts/arm" \
	"$package/arch/arm64/boot/dts/exynos" "$package/arch/arm64/boot/dts/rockchip" \
	"$package/include/dt-bindings" "$package/include/uapi/linux/input-event-codes.h" ||
	not_here "its tarball lacks files of CPU idle, the scheduler or device trees"
# An older checkout may have left a folder with less in it, and somebody may be reading there.
if [ -d "$place" ]; then
	mv "$place" "$work/less"
fi
mv tree "$place"
echo "$place"
