#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Prints a folder with the part of a Debian kernel source package that Torpor can host (scheduler,
# timers, idle, frequency), and some device trees, fetching it if need be:
#
#     tests/kernel_sources.sh 6.1
#
# The folder is $TORPOR_KERNEL_SOURCES/linux-source-VERSION, by default below build/kernel-sources/
# of this repository, and stays. Exit 77: the package cannot be had here; the reason is on stderr.
set -eu
version=${1:?usage: tests/kernel_sources.sh VERSION, for example 6.1}
root=$(cd "$(dirname "$0")/.." && pwd)
dts=arch/arm64/boot/dts
exec python3 "$root/python/torpor/machine/kernel_sources.py" "$version" \
	--folder "${TORPOR_KERNEL_SOURCES:-$root/build/kernel-sources}" \
	--also drivers/idle --also tools/sched_ext --also $dts/apple --also $dts/arm --also $dts/exynos \
	--also $dts/rockchip --also $dts/qcom/sm8250.dtsi
