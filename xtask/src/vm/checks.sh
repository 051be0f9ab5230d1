# What is done in each machine: a line for each thing, `CELL NAME ok|FAIL|skip WORDS`. `checks` and `kills` are set before.

# Starts a program and waits until it is ready: $pid. Its stdin stays open as descriptor 9.
start() {
    rm -f /tmp/in /tmp/said
    mkfifo /tmp/in
    "$@" </tmp/in >/tmp/said 2>&1 &
    pid=$!
    exec 9>/tmp/in
    wait_for 120 grep -q READY /tmp/said
}

stop() {
    exec 9>&-
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
}

wait_for() {
    tries=$(($1 * 10))
    shift
    while ! "$@" 2>/dev/null; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        usleep 100000
    done
}

# It lives, nobody traces it, it does not stand still, and it has no child that it did not make.
unharmed() {
    [ -d /proc/$pid ] || { echo "the target is gone: $(tail -n 1 /tmp/said)"; return 1; }
    for task in /proc/$pid/task/*; do
        # A thread that has ended meanwhile has no file.
        ! grep -q '^TracerPid:	[1-9]' $task/status 2>/dev/null || { echo "traced: $(grep -hE '^(Name|TracerPid)' $task/status | tr '\n' ' ')"; return 1; }
        ! grep -q '^State:	[Tt]' $task/status 2>/dev/null || { echo "stopped"; return 1; }
        for child in $(cat $task/children 2>/dev/null); do
            [ "$1" = may-fork ] || { echo "has child $child: $(grep -h State /proc/$child/status)"; return 1; }
        done
    done
}

# The recording in /tmp/c.zip has samples, by what biopsy said.
has_samples() {
    grep -qE '^[1-9][0-9,]* samples' /tmp/try || return 1
    grep -E 'samples, .* lost' /tmp/try >/tmp/note
}

trace_with() {
    start busy-loop 2
    biopsy trace $pid --method $1 --for 3s -o /tmp/c.zip >/tmp/try 2>&1 && has_samples && unharmed >>/tmp/try
}

check_doctor() {
    biopsy doctor >/tmp/try 2>&1
    # The kernel part of the trace is there.
    grep -A2 thread-states /tmp/try | head -n 3 >/tmp/note
    grep -qi 'BPF programs can be loaded' /tmp/try
}

check_capture() {
    start switch-storm
    biopsy capture $pid --for 3s -o /tmp/c.zip >/tmp/try 2>&1 && has_samples && unharmed >>/tmp/try || return 1
    # By itself it takes the best way.
    unzip -p /tmp/c.zip report.json >/tmp/report.json
    ! grep -q 'was refused' /tmp/report.json || { grep -o '[^"]*was refused[^"]*' /tmp/report.json >>/tmp/try; return 1; }
}

check_bpf() { trace_with bpf; }
check_per_cpu() { trace_with perf-per-cpu; }
check_per_task() { trace_with perf-per-task; }
check_user_only() { trace_with perf-user-only; }

# What it holds while it records: descriptors, rings, memory.
check_cost() {
    start busy-loop $(nproc)
    biopsy capture $pid --for 8s -o /tmp/c.zip >/tmp/try 2>&1 &
    recorder=$!
    wait_for 60 grep -q bpf-map /proc/$recorder/maps
    sleep 3
    descriptors=$(ls /proc/$recorder/fd | wc -l)
    rings=$(awk '/^[0-9a-f]+-[0-9a-f]+ / {ring = /perf_event|bpf-map/} ring && /^Size:/ {size += $2} END {print size + 0}' /proc/$recorder/smaps)
    resident=$(awk '/^VmRSS/ {print $2}' /proc/$recorder/status)
    wait $recorder && has_samples || return 1
    echo "$descriptors descriptors, $rings KB of rings mapped, $resident KB resident; $(cat /tmp/note)" >/tmp/note2
    mv /tmp/note2 /tmp/note
}

check_dump() {
    start deadlock
    biopsy dump $pid -o /tmp/x.core >/tmp/try 2>&1 && unharmed >>/tmp/try || return 1
    grep 'pause ' /tmp/try | tail -n 1 >/tmp/note
    ! grep -q 'copied while' /tmp/try || return 1
    biopsy analyze /tmp/x.core >/tmp/try 2>&1 && grep -q Deadlock /tmp/try
}

check_tree() {
    start fork-children 2000
    biopsy dump $pid --tree -o /tmp/tree >/tmp/try 2>&1 && unharmed may-fork >>/tmp/try
}

check_crash() {
    start crashes null 5000
    biopsy dump $pid --on crash -o /tmp/crash.zip >/tmp/try 2>&1 || return 1
    biopsy analyze /tmp/crash.zip >/tmp/try 2>&1 && grep -qi 'null pointer' /tmp/try
}

check_stacks() {
    start deadlock ring
    biopsy stacks $pid >/tmp/try 2>&1 && unharmed >>/tmp/try || return 1
    grep -q "Deadlock: 5 threads" /tmp/try || return 1
    grep 'stood still' /tmp/try >/tmp/note
    ! grep -q 'copied while' /tmp/try
}

# Kills at random moments: the target checks its own registers, vectors included.
check_kills() {
    start registers 2
    n=0
    traced=0
    while [ $n -lt $kills ]; do
        n=$((n + 1))
        case $((n % 3)) in
        0) set -- dump $pid --raw --quiet --max-pause 5s -o /tmp/k.core ;;
        1) set -- stacks $pid --max-pause 5s ;;
        2) set -- dump $pid --quiet --max-pause 5s -o /tmp/k.core ;;
        esac
        biopsy "$@" >/tmp/try 2>&1 &
        killed=$!
        usleep $(((RANDOM * 40) % 1200000))
        grep -q '^TracerPid:	0' /proc/$pid/status || traced=$((traced + 1))
        kill -9 $killed 2>/dev/null
        wait $killed 2>/dev/null
        rm -f /tmp/k.core*
    done
    # What was left is gone with the next look.
    echo "$n kills, $traced while traced" >/tmp/note
    biopsy stacks $pid --max-pause 5s >/tmp/try 2>&1
    wait_for 20 unharmed || { unharmed >>/tmp/try; return 1; }
    : >/tmp/said
    echo >&9
    wait_for 60 grep -q INTACT /tmp/said || { cat /tmp/said >>/tmp/try; return 1; }
}

# A group without room for a copy, whose members the kernel kills together where it can.
check_memory_group() {
    if [ -d /sys/fs/cgroup/memory ]; then
        group=/sys/fs/cgroup/memory/small
        limit=memory.limit_in_bytes
    else
        group=/sys/fs/cgroup/small
        limit=memory.max
    fi
    mkdir -p $group
    echo 80M >$group/$limit || return 1
    [ ! -e $group/memory.oom.group ] || echo 1 >$group/memory.oom.group
    start sh -c "echo 0 >$group/cgroup.procs; exec write-heavy 50"
    for kind in "dump $pid -o /tmp/m.core --quiet" "stacks $pid" "dump $pid --kind full -o /tmp/m2.core --quiet"; do
        biopsy $kind >>/tmp/try 2>&1
        unharmed >>/tmp/try || return 1
    done
    tail -n 1 /tmp/try >/tmp/note
}

dotnet() {
    [ -x /dotnet/dotnet ] || return 2
    export DOTNET_ROOT=/dotnet DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1
    # The holder checks its own truth first, which it does not pass with .NET 8 on the old processor.
    start /dotnet/dotnet /net/$1/holder.dll || { grep -h 'Unhandled' /tmp/said >/tmp/note; return 2; }
    biopsy snapshot $pid -o /tmp/s.snapshot --max-pause 20s >/tmp/try 2>&1 && unharmed >>/tmp/try || return 1
    grep -m 1 objects /tmp/try >/tmp/note
    biopsy stacks $pid --max-pause 20s >/tmp/try 2>&1 && grep -q 'Holder' /tmp/try && unharmed >>/tmp/try
}
check_net8_0() { dotnet net8.0; }
check_net10_0() { dotnet net10.0; }

# What was done before left no warning of the kernel behind.
check_kernel() {
    [ -z "$complained" ] || { echo "complained after$complained" >/tmp/try; return 1; }
}

for check in $checks; do
    rm -rf /tmp/note /tmp/try /tmp/tree /tmp/*.core /tmp/*.zip /tmp/*.snapshot
    pid=
    check_$(echo $check | tr -c 'a-z0-9\n' _)
    case $? in
    0) echo "CELL $check ok $(cat /tmp/note 2>/dev/null | tr -s '\n ' '  ')" ;;
    2) echo "CELL $check skip $(cat /tmp/note 2>/dev/null | tr -s '\n ' '  ')" ;;
    *) echo "CELL $check FAIL $(tail -n 6 /tmp/try 2>/dev/null | tr -s '\n ' '  ')" ;;
    esac
    [ -z "$pid" ] || stop
    # What the kernel complained of, and after which check.
    dmesg -c | grep -A 30 -E 'WARNING: |BUG: |Oops|rcu: INFO|blocked for more than' >/tmp/complaints
    [ ! -s /tmp/complaints ] || { echo "kernel complained after $check:"; cat /tmp/complaints; complained="$complained $check"; }
done
