# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Runs in a guest, whose busybox it is written for: every governor and driver is loaded, used under
# load, and unloaded. STATES is the table that the machine wears. What is seen goes to /out.

cpuidle=/sys/devices/system/cpu/cpuidle
cpu1=/sys/devices/system/cpu/cpu1

# Each state's counters, summed over CPUs: NAME USAGE ABOVE BELOW, by state.
counters() {
	for name in $(cat /sys/devices/system/cpu/cpu0/cpuidle/state*/name); do
		for state in /sys/devices/system/cpu/cpu*/cpuidle/state*; do
			if [ "$(cat $state/name)" = "$name" ]; then
				echo $name $(cat $state/usage $state/above $state/below)
			fi
		done
	done | awk '{ u[$1] += $2; a[$1] += $3; b[$1] += $4 } !n[$1]++ { order[++m] = $1 }
		END { for (i = 1; i <= m; i++) { s = order[i]; print s, u[s], a[s], b[s] } }'
}

# All that a governor may meet: timers near and far, a partner's wake-ups, bursts, IO waits.
workload() {
	periodic 97 0.2
	idle_predict -n 2 -l 6 -t 300 -s 1
	pingpong 40 50
	ipi_burst 3 5 100 2000
	disk_reader /dev/nullb0 50
	# For a while all states are forbidden that are left in more than 50 us, on one CPU.
	echo 50 > $cpu1/power/pm_qos_resume_latency_us
	ipi_burst 5 5 100 2000
	echo 0 > $cpu1/power/pm_qos_resume_latency_us
	# A CPU goes while timers are set on it, and comes back. A governor's timer moves to the other.
	periodic 997 0.2 &
	for _ in 1 2 3; do
		usleep 20000
		echo 0 > $cpu1/online
		usleep 30000
		echo 1 > $cpu1/online
	done
	wait $!
	ipi_burst 3 5 100 2000
}

# Runs a governor under the workload, into a folder.
use() {
	echo $1 > $cpuidle/current_governor
	mkdir -p $2
	counters > $2/before
	workload > $2/workload
	counters > $2/after
}

loaded() {
	lsmod | grep -o '^torpor_[a-z0-9_]*' || true
}

unload_all() {
	for module in $(loaded); do
		[ $module = torpor_core ] || rmmod $module
	done
	rmmod torpor_core
}

cd /mod
insmod configfs.ko
insmod null_blk.ko nr_devices=1 gb=1 irqmode=2 completion_nsec=150000
insmod torpor_core.ko log_decisions=1 log_kb=16384

# Outside KVM haltpoll does not offer itself, and then is no module that stays.
insmod torpor_t_haltpoll.ko 2>/dev/null || loaded > /out/without_kvm
echo 1 > /sys/module/torpor_core/parameters/assume_kvm

for module in torpor_t_*.ko; do
	insmod $module || echo $module >> /out/refused
done
cat $cpuidle/current_governor > /out/current_after_loading
ls /sys/kernel/debug/torpor/timers > /out/counts_timers
insmod torpor_idle.ko states=$STATES serve=count
cat $cpuidle/current_driver > /out/driver
cat $cpuidle/available_governors > /out/available
(cd /sys/module && grep -H . torpor_*/parameters/*) > /out/parameters

for governor in $(cat /out/available); do
	# To poll takes an emulated CPU's real time.
	[ $governor != t-shallowest ] || grep -l POLL /sys/devices/system/cpu/cpu*/cpuidle/state0/name |
		sed 's/name$/disable/' | while read -r file; do echo 1 > $file; done
	use $governor /out/governors/$governor
	module=torpor_$(echo $governor | tr .- __)
	if grep -q "^$module " /proc/modules; then
		lsmod | grep "^$module " > /out/governors/$governor/in_use
		rmmod $module 2>/dev/null && echo $governor >> /out/unloaded_in_use
	fi
done

# Without any device nobody uses the governor that is current; another takes its place.
echo t-teo > $cpuidle/current_governor
rmmod torpor_idle
rmmod torpor_t_teo
cat $cpuidle/current_governor > /out/current_after_unloading

if [ -f torpor_poll_arm64.ko ]; then
	insmod torpor_poll_arm64.ko poll_limit=200
	cat $cpuidle/current_driver > /out/poll_driver
	cat /sys/devices/system/cpu/cpu0/cpuidle/state*/latency > /out/poll_latencies
	use menu /out/poll
	rmmod torpor_poll_arm64
fi

cp -r /sys/kernel/debug/torpor /out/decisions
unload_all
loaded > /out/left

# Once more, with nothing in between that looks on.
insmod torpor_core.ko
insmod torpor_idle.ko states=$STATES serve=count
insmod torpor_t_menu_3_8.ko
use t-menu-3.8 /out/unlogged
echo menu > $cpuidle/current_governor
unload_all
