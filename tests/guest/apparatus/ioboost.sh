# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Records in a guest which frequencies are asked for, and how often its boost and the kernel's own
# differed; ioboost.py puts what is asked in front, and reads what comes out of /out.

tracing=/sys/kernel/tracing
debug=/sys/kernel/debug

counts() {
	cat $debug/ioboost/asked $debug/ioboost/other
}

# record NAME LOAD...
record() {
	local folder=/out/$1 first
	shift
	mkdir $folder
	# Whatever ran before is forgotten, and all frequencies are down.
	sleep 1
	counts > $folder/counts
	for first in $firsts; do
		cat /sys/devices/system/cpu/cpufreq/policy$first/scaling_cur_freq
	done > $folder/before
	echo > $tracing/trace
	echo 1 > $tracing/tracing_on
	echo begin > $tracing/trace_marker
	"$@" > $folder/said
	echo end > $tracing/trace_marker
	echo 0 > $tracing/tracing_on
	counts > $folder/counted
	cat $tracing/trace > $folder/trace
}

insmod /mod/torpor_cpufreq.ko policies=$policies delay_us=$delay_us
insmod /mod/configfs.ko
# A disk whose latency is a timer, so that it can be repeated.
insmod /mod/null_blk.ko nr_devices=1 gb=1 irqmode=2 completion_nsec=$completion_ns

cat $debug/ioboost/name > /out/boost
cat /sys/devices/system/cpu/cpu*/cpu_capacity > /out/capacities

echo 0 > $tracing/tracing_on
echo mono > $tracing/trace_clock
echo 4096 > $tracing/buffer_size_kb
# All CPUs of a domain have the same; one CPU of each is read.
filter=
for first in $firsts; do
	filter="${filter:+$filter || }cpu_id == $first"
done
echo "$filter" > $tracing/events/power/cpu_frequency/filter
echo 1 > $tracing/events/power/cpu_frequency/enable
