#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Makes a recording like web-server.perf.data: nginx under light, irregular load, 10 seconds of
# one CPU. Needs root, perf, nginx and python3, and a machine that has nothing else to do.
#   ./record.sh [OUTPUT]
set -eu

output=${1:-web-server.perf.data}
port=${PORT:-8765}
seconds=${SECONDS_RECORDED:-10}
near=${CPU_RECORDED:-0} # the server's CPU
far=${CPU_OTHER:-1}     # most visitors' CPU, and perf's
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'kill $(cat "$work/nginx.pid" 2>/dev/null) 2>/dev/null || true; sleep 0.3; rm -rf "$work"' EXIT

chmod 755 "$work"
head -c 4096 /dev/zero | tr '\0' 'x' > "$work/page.html"
cat > "$work/nginx.conf" <<CONF
worker_processes 1;
pid $work/nginx.pid;
error_log /dev/null;
events { worker_connections 64; }
http {
    access_log off;
    keepalive_requests 100000;
    server { listen 127.0.0.1:$port; root $work; }
}
CONF
taskset -c "$near" nginx -c "$work/nginx.conf"

events=$(cat <<EVENTS | paste -sd, -
power:cpu_idle
power:cpu_idle_miss
sched:sched_switch
sched:sched_waking
timer:hrtimer_start
timer:hrtimer_cancel
timer:hrtimer_expire_entry
timer:hrtimer_expire_exit
timer:timer_start
timer:timer_cancel
timer:timer_expire_entry
timer:tick_stop
irq:softirq_raise
irq:irq_handler_entry
irq:irq_handler_exit
irq_vectors:local_timer_entry
irq_vectors:local_timer_exit
irq_vectors:reschedule_entry
irq_vectors:call_function_entry
irq_vectors:call_function_single_entry
ipi:ipi_send_cpu
ipi:ipi_send_cpumask
EVENTS
)

# The load runs longer than the recording at both ends.
python3 "$here/load.py" --port "$port" --journal "$work/journal" \
    --near-cpu "$near" --far-cpu "$far" --duration-s $((seconds + 4)) &
load=$!
sleep 2
# No build ids and no walk over the running processes: replay needs neither, and both name files.
# Large buffers, so that perf itself wakes nobody before the end.
taskset -c "$far" perf record -q -C "$near" -k CLOCK_MONOTONIC -m 32M -z9 \
    --synth=no --no-buildid --no-buildid-cache --no-bpf-event \
    -e "$events" -o "$output" -- sleep "$seconds"
wait $load
python3 "$here/scrub.py" "$output"

# A program that starts meanwhile leaves the paths of its files; such a recording is no good.
if perf script -i "$output" --show-mmap-events 2>/dev/null | grep 'PERF_RECORD_MMAP2 '; then
    echo "record: a program was started meanwhile: record again" >&2
    exit 1
fi
ls -l "$output"
