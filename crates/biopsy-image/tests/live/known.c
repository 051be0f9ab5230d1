// A process whose memory and registers are known: 8 MiB of a pattern, a hole, a shared mapping, five threads that wait
// in pause(2) with a magic number in r15 and xmm15, and one that writes through a null pointer when SIGUSR1 comes.
#include "target.h"
#include <sys/mman.h>
#include <sys/syscall.h>

static void *wait_with_magic(void *argument) {
    register unsigned long magic asm("r15") = 0x1111000000000000ul + (unsigned long)argument;
    for (;;)
        asm volatile("movq %0, %%xmm15\n mov $34, %%eax\n syscall" ::"r"(magic)
                     : "rax", "rcx", "r11", "xmm15", "memory");
    return NULL;
}

VISIBLE void write_through_null(volatile int *nothing) { nothing[2] = 1; }

static void crash(int number) {
    (void)number;
    write_through_null(NULL);
}

// Waits in a read that goes on by itself after a stop: sigwait(3) would not, and so would change its stack.
static void *crash_on_demand(void *unused) {
    (void)unused;
    int ends[2];
    char byte;
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR1);
    signal(SIGUSR1, crash);
    pthread_sigmask(SIG_UNBLOCK, &wanted, NULL);
    if (pipe(ends) == 0) (void)!read(ends[0], &byte, 1);
    return NULL;
}

int main(void) {
    limit_own_life();
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    size_t size = 8 << 20;
    unsigned int *pattern = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned int *shared = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (pattern == MAP_FAILED || shared == MAP_FAILED) return 2;
    for (size_t at = 0; at < size / 4; at++) pattern[at] = at * 2654435761u;
    for (size_t at = 0; at < 65536 / 4; at++) shared[at] = at ^ 0x5a5a5a5a;
    for (long number = 0; number < 5; number++) start_thread(wait_with_magic, (void *)number);
    start_thread(crash_on_demand, NULL);
    printf("READY %d %p %p\n", (int)getpid(), (void *)pattern, (void *)shared);
    fflush(stdout);
    wait_for_stop();
}
