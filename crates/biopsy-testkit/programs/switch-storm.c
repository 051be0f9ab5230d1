// Two threads throw a byte to and fro through pipes as fast as they can: some 100,000 context switches a second. Arguments: after so many
// milliseconds they rest for ever (never), and a third thread naps for so many milliseconds, again and again (there is none).
#include "target.h"

static int there[2], back[2];
static long nap_ns;
static _Atomic int rest;

VISIBLE void throw_and_catch(int out, int in) {
    char ball = 0;
    if (write(out, &ball, 1) != 1 || read(in, &ball, 1) != 1) _exit(2);
}

static void *ping(void *unused) {
    (void)unused;
    prctl(PR_SET_NAME, "ping");
    while (!rest) throw_and_catch(there[1], back[0]);
    for (;;) sleep_ns(1000000000L);
    return NULL;
}

static void *pong(void *unused) {
    (void)unused;
    prctl(PR_SET_NAME, "pong");
    for (;;) throw_and_catch(back[1], there[0]);
    return NULL;
}

static void *naps(void *unused) {
    prctl(PR_SET_NAME, "naps");
    for (;;) sleep_ns(nap_ns);
    return unused;
}

static void *stops_the_storm(void *milliseconds) {
    sleep_ns(1000000L * (long)milliseconds);
    rest = 1;
    return NULL;
}

int main(int argc, char **argv) {
    limit_own_life();
    long storm_ms = number_argument(argc, argv, 1, 0);
    nap_ns = 1000000L * number_argument(argc, argv, 2, 0);
    if (pipe(there) != 0 || pipe(back) != 0) return 2;
    start_thread(ping, NULL);
    start_thread(pong, NULL);
    if (nap_ns > 0) start_thread(naps, NULL);
    if (storm_ms > 0) start_thread(stops_the_storm, (void *)storm_ms);
    say_ready();
    wait_for_stop();
    return 0;
}
