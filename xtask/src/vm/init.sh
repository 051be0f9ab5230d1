#!/bin/busybox sh
# The first process of an emulated machine: makes it one, runs the commands, and ends it.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root TERM=dumb
mount -t proc p /proc
mount -t sysfs s /sys
mount -t devtmpfs d /dev
mkdir -p /dev/shm /dev/pts
mount -t devpts d /dev/pts
mount -t tmpfs t /tmp
mount -t tmpfs t /dev/shm
if grep -q biopsy.groups=1 /proc/cmdline; then
    mount -t tmpfs t /sys/fs/cgroup
    for one in memory cpu cpuacct pids freezer; do
        mkdir -p /sys/fs/cgroup/$one
        mount -t cgroup -o $one c /sys/fs/cgroup/$one 2>/dev/null
    done
else
    mount -t cgroup2 c /sys/fs/cgroup
    echo '+memory +pids +cpu' >/sys/fs/cgroup/cgroup.subtree_control
fi
ip link set lo up
cd /tmp
# The kernel's own messages would break lines in two.
dmesg -n 1
echo "VM-BEGIN $(uname -r) $(nproc) cpus $(free -m | awk '/^Mem/ {print $2}') MB"
sh /commands
echo "VM-END $?"
poweroff -f
