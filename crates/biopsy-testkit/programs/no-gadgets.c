// Without a C library: every `syscall` is followed by something else than `ret`, and nothing returns from signals. What can
// be used in other programs to lead a thread through a system call is not there.
//
// It says `READY`, answers each read from stdin with `INTACT`, and ends with stdin or after ten minutes.

static long call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall\n nop" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

__attribute__((noreturn, used)) static void run(void) {
    char buffer[64];
    call(37 /* alarm */, 600, 0, 0);
    call(1 /* write */, 1, (long)"READY\n", 6);
    for (;;) {
        long got = call(0 /* read */, 0, (long)buffer, sizeof buffer);
        if (got == 0) call(231 /* exit_group */, 0, 0, 0);
        if (got < 0) call(231, 20, 0, 0);
        call(1, 1, (long)"INTACT\n", 7);
    }
}

__asm__(".globl _start\n_start: and $-16, %rsp\n call run\n");
