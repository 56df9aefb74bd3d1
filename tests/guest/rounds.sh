# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Runs in a guest: ROUNDS times every governor, or those that the pattern GOVERNORS names, is loaded,
# used and unloaded again, while CPUs are busy, go and come, and governors are switched. Nothing of it
# may leave a trace in the log.

cpuidle=/sys/devices/system/cpu/cpuidle
timers=/sys/kernel/debug/torpor/timers

cd /mod
insmod torpor_core.ko assume_kvm=1
insmod torpor_idle.ko states=$STATES serve=count

# Until the machine goes down.
while :; do
	ipi_burst 10 5 100 1000 > /dev/null
	idle_predict -n 3 -l 5 -t 50 -s 1 > /dev/null
done &
while :; do
	echo 0 > /sys/devices/system/cpu/cpu1/online
	usleep 7000
	echo 1 > /sys/devices/system/cpu/cpu1/online && echo 1 >> /out/hotplugs
	usleep 41000
done 2>/dev/null &

round=0
while [ $round -lt $ROUNDS ]; do
	for module in torpor_t_${GOVERNORS:-*}.ko; do
		insmod $module
		governor=$(tr ' ' '\n' < $cpuidle/available_governors | grep '^t-')
		echo $governor > $cpuidle/current_governor
		[ "$(cat $cpuidle/current_governor)" = $governor ] && echo $governor >> /out/used
		usleep 3000
		rmmod $module 2>/dev/null && echo $governor >> /out/unloaded_in_use
		[ $((round % 2)) = 0 ] && echo ladder > $cpuidle/current_governor
		echo menu > $cpuidle/current_governor
		[ ! -f $timers/$governor ] || sed "1d; s/^/$governor /" $timers/$governor >> /out/timers
		rmmod $module
	done
	round=$((round + 1))
	[ $((round % 10)) != 0 ] || echo "$round rounds" > /dev/console
done
echo $round > /out/rounds
