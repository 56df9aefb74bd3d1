# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Records in a guest, whose busybox it is written for; recording.py puts what is asked in front, and
# makes trace.dat of what comes out. What is recorded goes to /out/recordings/NAME.

tracing=/sys/kernel/tracing
cpuidle=/sys/devices/system/cpu/cpuidle

# Dumps the counters as `grep .` does.
dump() {
	grep -s . $cpuidle/* /sys/devices/system/cpu/cpu*/cpuidle/state*/* \
		/sys/devices/system/cpu/cpu*/cpuidle/state*/s2idle/* || true
}

# Keeps every CPU from sleeping. A sleep that an edge of the recording cuts would be in the counters
# and not in the events, or the other way round.
hold() {
	local cpu
	held=
	for cpu in $(seq 0 $(($(nproc) - 1))); do
		taskset $(printf %x $((1 << cpu))) sh -c 'while :; do :; done' &
		held="$held $!"
	done
	# Until all of them run.
	usleep 20000
}
release() {
	kill $held
	wait $held 2>/dev/null || true
}

# record NAME GOVERNOR WORKLOAD...: the governor forgets what it has learned, then runs the workload.
record() {
	local folder=/out/recordings/$1 governor=$2 other event cpu
	shift 2
	mkdir -p $folder
	for other in $(cat $cpuidle/available_governors); do
		[ $other = $governor ] || break
	done
	echo $governor > $cpuidle/current_governor
	for event in $enabled; do
		echo 1 > $tracing/events/$event/enable
	done
	hold
	dump > $folder/sysfs-before.txt
	echo 1 > $tracing/tracing_on
	# From here on a CPU's utilization is that of the recording.
	usleep 250000
	echo $other > $cpuidle/current_governor
	echo $governor > $cpuidle/current_governor
	echo RESET > $tracing/trace_marker
	release
	"$@" > $folder/workload.txt
	hold
	echo 0 > $tracing/tracing_on
	dump > $folder/sysfs-after.txt
	release
	for event in $enabled; do
		echo 0 > $tracing/events/$event/enable
	done
	for cpu in $tracing/per_cpu/cpu*; do
		mkdir -p $folder/${cpu##*/}
		cat $cpu/stats > $folder/${cpu##*/}/stats
		# A reader waits for more when it has all; in a guest, no real time passes meanwhile.
		timeout 1 dd if=$cpu/trace_pipe_raw of=$folder/${cpu##*/}/pages bs=64k 2>/dev/null || true
	done
	cat $tracing/saved_cmdlines > $folder/saved_cmdlines
	echo > $tracing/trace
}

# Workloads by name.
mix() {
	periodic 97 0.4
	idle_predict -n 2 -l 8 -t 400 -s 1
	[ $(nproc) = 1 ] || pingpong 60 80
	[ $(nproc) = 1 ] || ipi_burst 4 8 120 3000
	disk_reader /dev/nullb0 80 200
}
rates() {
	local hz
	for hz in 5 11 23 47 97 197 411; do
		periodic $hz 1
	done
}
# A command, and after a second a reader of the disk beside it.
beside_disk() {
	usleep 1000000 && disk_reader /dev/nullb0 5200 500 &
	"$@"
	wait
}

# A disk whose latency is a timer, so that it can be repeated.
insmod /mod/configfs.ko
insmod /mod/null_blk.ko nr_devices=1 gb=1 irqmode=2 completion_nsec=150000

echo 0 > $tracing/tracing_on
echo mono > $tracing/trace_clock
echo $buffer_kb > $tracing/buffer_size_kb
for function in $probes; do
	type=${function#*:}
	function=${function%:*}
	# Function-entry probes cost least; kernels before 6.5 have return probes.
	echo "f:torpor/$function $function%return ret=\$retval:$type" >> $tracing/dynamic_events 2>/dev/null ||
		echo "r:torpor/$function $function ret=\$retval:$type" >> $tracing/dynamic_events ||
		echo $function >> /out/not_probed
	events="$events torpor/$function"
done
mkdir -p /out/formats
enabled=
for event in $events; do
	[ -d $tracing/events/$event ] || continue
	enabled="$enabled $event"
	mkdir -p /out/formats/$event
	cat $tracing/events/$event/format > /out/formats/$event/format
done
for event in $tracing/events/ftrace/*; do
	[ -f $event/format ] || continue
	mkdir -p /out/formats/ftrace/${event##*/}
	cat $event/format > /out/formats/ftrace/${event##*/}/format
done
cat $tracing/events/header_page > /out/formats/header_page
cat $tracing/events/header_event > /out/formats/header_event
cat $tracing/trace_clock > /out/formats/trace_clock
grep ' [tTwW] ' /proc/kallsyms > /out/kallsyms
