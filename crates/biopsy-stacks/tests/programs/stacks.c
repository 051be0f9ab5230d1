// Threads that block in ways an unwinder must be able to cross. Each writes "NAME TID" to stdout and pauses.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noipa)) static void rest(const char *name) {
    pthread_mutex_lock(&output);
    printf("%s %ld\n", name, syscall(SYS_gettid));
    fflush(stdout);
    pthread_mutex_unlock(&output);
    for (;;) pause();
}

// Recursion with a frame that differs in size from call to call cannot be turned into a loop.
__attribute__((noipa)) static long descend(int depth, long *above) {
    long here[8];
    memset(here, depth, sizeof here);
    here[0] = above ? above[0] + depth : depth;
    if (depth == 0) rest("deep");
    long below = descend(depth - 1, here);
    return below + here[3];
}

static void *deep(void *unused) {
    (void)unused;
    return (void *)descend(200, NULL);
}

static void handler(int number) {
    rest(number == SIGUSR1 ? "signal" : "altstack");
    asm volatile(""); // not the last thing done, so that the call is no jump
}

// Uses rbp and rbx as plain registers, so that only the saved context of the signal can tell the caller.
__attribute__((noipa)) static void interrupted(int number) {
    register unsigned long junk asm("rbp") = 0x1234567;
    asm volatile("" : "+r"(junk));
    raise(number);
    asm volatile("" : "+r"(junk));
}

static void *in_signal(void *unused) {
    (void)unused;
    interrupted(SIGUSR1);
    return NULL;
}

static void *on_altstack(void *unused) {
    (void)unused;
    stack_t alternative = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    sigaltstack(&alternative, NULL);
    interrupted(SIGUSR2);
    return NULL;
}

static int compare(const void *left, const void *right) {
    (void)left, (void)right;
    rest("callback");
    return 0;
}

static void *in_callback(void *unused) {
    (void)unused;
    int numbers[4] = {3, 1, 2, 0};
    qsort(numbers, 4, sizeof numbers[0], compare);
    return NULL;
}

// A 64-byte alignment above the ABI's 16 makes the compiler realign the stack and find its frame by expression.
__attribute__((noipa)) static void realigned_inner(volatile char *bytes) {
    bytes[0] = 1;
    rest("realigned");
    bytes[0] = 2;
}

__attribute__((noipa)) static void realigned_outer(int size) {
    alignas(64) volatile char bytes[256];
    volatile char *more = __builtin_alloca((size_t)size);
    more[0] = 0;
    realigned_inner(bytes);
    bytes[1] = more[0];
}

static void *realigned(void *unused) {
    (void)unused;
    realigned_outer(100);
    return NULL;
}

// Entered by hand without any unwind information: only the frame pointer leads out.
void bare(void (*call)(const char *), const char *name);
asm(".text\n.globl bare\n.type bare, @function\nbare:\n"
    "push %rbp\nmov %rsp, %rbp\npush %rbx\nsub $24, %rsp\n"
    "mov %rdi, %rax\nmov %rsi, %rdi\ncall *%rax\n"
    "add $24, %rsp\npop %rbx\npop %rbp\nret\n.size bare, .-bare\n");

static void *without_unwind_info(void *unused) {
    (void)unused;
    bare(rest, "bare");
    return NULL;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR2, &action, NULL);
    void *(*starts[])(void *) = {deep, in_signal, on_altstack, in_callback, realigned, without_unwind_info};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, starts[i], NULL);
    }
    rest("main");
}
