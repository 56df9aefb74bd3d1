# SPDX-License-Identifier: MIT OR GPL-2.0-only
# followed.sh, for other scripts to read: a command whose output goes to a log, and cargo's progress.

# followed LOG COMMAND...: runs the command, and meanwhile says how many crates cargo has named in the
# log: on one line of a terminal, else a line every half minute. A build that has little to do says
# nothing. Returns the command's status.
followed() {
    log=$1
    shift
    follow &
    follower=$!
    trap 'kill "$follower" 2>/dev/null || true' EXIT
    status=0
    "$@" >>"$log" 2>&1 || status=$?
    kill "$follower" 2>/dev/null || true
    [ ! -t 2 ] || printf '\r%60s\r' "" >&2
    return "$status"
}

follow() {
    before=$(grep -c '^ *Compiling' "$log" || true)
    total=$(cargo tree -p torpor-py -e normal,build --prefix none 2>/dev/null |
        sed 's/ (\*)$//' | sort -u | wc -l)
    seconds=0
    # A signal that ends the script alone leaves this loop without an owner.
    while sleep 1 && kill -0 $$ 2>/dev/null; do
        seconds=$((seconds + 1))
        crates=$(($(grep -c '^ *Compiling' "$log" || true) - before))
        if [ -t 2 ]; then
            [ "$crates" -lt 3 ] || printf '\rbuild: %s of at most %s crates, %d:%02d ' \
                "$crates" "$total" $((seconds / 60)) $((seconds % 60)) >&2
        elif [ $((seconds % 30)) = 0 ]; then
            echo "build: $crates of at most $total crates, $((seconds / 60)) min $((seconds % 60)) s" >&2
        fi
    done
}
