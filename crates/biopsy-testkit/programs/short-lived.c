// Lives for a millisecond: writes its pid into its memory where a dump must find it, then ends. It never says READY.
// Argument 1 says how it ends:
//   N           exit code N (default 0), at once
//   threads     eight threads sleep; the main thread calls exit_group with 7
//   leaver      the main thread ends alone (pthread_exit), another one ends the process with 8
//   abort       SIGABRT       null     SIGSEGV       kill     SIGKILL, by itself
//   caught      SIGSEGV and SIGUSR1 are caught and 9 is the exit code; SIGUSR2 is ignored
//   again       executes itself with argument 11
//   sleep MS    sleeps first, then 0
#include "target.h"

#include <setjmp.h>

// "short-lived " and the pid, on the heap; the pointer is global.
char *volatile mark_on_heap;
volatile long mark_in_data = 0x5ca1ab1e;
static sigjmp_buf after_fault;
static volatile int caught;
static volatile int *volatile nowhere = (volatile int *)16;

static void *sleeper(void *unused) {
    pause();
    return unused;
}

static void *ender(void *main_thread) {
    pthread_join(*(pthread_t *)main_thread, NULL);
    exit(8);
}

static void on_signal(int signal) {
    caught++;
    if (signal == SIGSEGV) siglongjmp(after_fault, 1);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "0";
    mark_on_heap = malloc(64);
    snprintf(mark_on_heap, 64, "short-lived %d", (int)getpid());
    if (strcmp(mode, "threads") == 0) {
        for (int i = 0; i < 8; i++) start_thread(sleeper, NULL);
        return 7;
    } else if (strcmp(mode, "leaver") == 0) {
        static pthread_t myself;
        myself = pthread_self();
        start_thread(ender, &myself);
        pthread_exit(NULL);
    } else if (strcmp(mode, "abort") == 0) {
        abort();
    } else if (strcmp(mode, "null") == 0) {
        *nowhere = 1;
    } else if (strcmp(mode, "kill") == 0) {
        kill(getpid(), SIGKILL);
    } else if (strcmp(mode, "caught") == 0) {
        signal(SIGSEGV, on_signal);
        signal(SIGUSR1, on_signal);
        signal(SIGUSR2, SIG_IGN);
        if (sigsetjmp(after_fault, 1) == 0) *nowhere = 1;
        raise(SIGUSR1);
        raise(SIGUSR2);
        return caught == 2 ? 9 : 99;
    } else if (strcmp(mode, "again") == 0) {
        execl("/proc/self/exe", argv[0], "11", (char *)NULL);
        return 98;
    } else if (strcmp(mode, "sleep") == 0) {
        sleep_ns(number_argument(argc, argv, 2, 0) * 1000000);
        return 0;
    }
    return (int)strtol(mode, NULL, 10);
}
