# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Runs in a guest: what drivers refuse, and how they and the log are used in ways that they are not
# meant for. What is seen goes to /out.

tracing=/sys/kernel/tracing
cpuidle=/sys/devices/system/cpu/cpuidle

refuse() {
	if insmod $1.ko $2 2>/dev/null; then
		echo "$1 $2" >> /out/taken
		rmmod $1
	fi
}

cd /mod
# Spent with interrupts off, by the clock and in rounds.
refuse torpor_idle states=C1:100001:1
refuse torpor_idle states=C1:4294967295:1
refuse torpor_idle count_ps=99
# Debian's kernel for arm64 has no polling state.
[ ! -f torpor_poll_arm64.ko ] || refuse torpor_idle states=POLL,C1:1:1
# A CPU of two domains; the frequency that ends the kernel's tables.
refuse torpor_cpufreq policies=0-1@800000:1/1@900000:1
refuse torpor_cpufreq policies=0@800000:1,4294967294:2
[ ! -f torpor_poll_arm64.ko ] || refuse torpor_poll_arm64

# Nobody is in a driver's states any more when its module is freed: they are left slowly.
echo 1 > $tracing/events/power/cpu_idle/enable
echo 1 > $tracing/events/module/module_free/enable
for _ in 1 2 3 4 5; do
	insmod torpor_idle.ko states=SLOW:100000:1 serve=time
	usleep 300000
	rmmod torpor_idle
done
echo 0 > $tracing/tracing_on
cat $tracing/trace > /out/trace

# A log is read while it is written.
insmod torpor_core.ko log_decisions=1
insmod torpor_t_menu.ko
insmod torpor_idle.ko states=$STATES serve=count
echo t-menu > $cpuidle/current_governor
ipi_burst 10 5 100 1000 > /dev/null &
for round in 0 1 2 3 4 5 6 7 8 9; do
	for cpu in cpu0 cpu1; do
		cat /sys/kernel/debug/torpor/$cpu > /out/$cpu.$round
	done
done
wait
echo menu > $cpuidle/current_governor
for cpu in cpu0 cpu1; do
	cat /sys/kernel/debug/torpor/$cpu > /out/$cpu.last
done
rmmod torpor_t_menu
rmmod torpor_idle
rmmod torpor_core
