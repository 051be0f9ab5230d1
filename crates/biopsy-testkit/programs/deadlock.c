// Sick: threads that wait for each other for ever. Argument 1 says how:
//   abba     `transfer-out` and `transfer-in` take two mutexes in opposite order, and `auditor-N` (argument 2, default 3) queue
//            for one of them
//   ring     N threads (argument 2, default 5), each holds one mutex and wants its neighbour's
//   rwlock   `reporter` writes under one lock and wants the mutex that `importer` has, which wants to read under that lock
//   self     one thread locks a mutex a second time
//   gone     a thread ended and never gave its mutex back; two wait for it
//   join     two threads wait for each other's end
//   none     a condition variable and a semaphore nobody signals: waiting, and no deadlock
#include "target.h"
#include <semaphore.h>

static pthread_mutex_t accounts = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t journal = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t prices = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t ring[64];
static pthread_barrier_t all_have_one;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static sem_t tickets;
static pthread_t first, second;
static long ring_size;

static void name_self(const char *name, long number) {
    char text[32];
    snprintf(text, sizeof text, number < 0 ? "%s" : "%s-%ld", name, number);
    text[15] = 0;
    prctl(PR_SET_NAME, text);
}

VISIBLE void take_journal(void) { pthread_mutex_lock(&journal); }
VISIBLE void take_accounts(void) { pthread_mutex_lock(&accounts); }

static void *transfer_out(void *unused) {
    name_self("transfer-out", -1);
    take_accounts();
    pthread_barrier_wait(&all_have_one);
    take_journal();
    return unused;
}

static void *transfer_in(void *unused) {
    name_self("transfer-in", -1);
    take_journal();
    pthread_barrier_wait(&all_have_one);
    take_accounts();
    return unused;
}

static void *auditor(void *number) {
    name_self("auditor", (long)number);
    take_accounts();
    return NULL;
}

VISIBLE void take_next_of_ring(long own) { pthread_mutex_lock(&ring[(own + 1) % ring_size]); }

static void *ring_member(void *number) {
    long own = (long)number;
    name_self("ring", own);
    pthread_mutex_lock(&ring[own]);
    pthread_barrier_wait(&all_have_one);
    take_next_of_ring(own);
    return NULL;
}

static void *reporter(void *unused) {
    name_self("reporter", -1);
    pthread_rwlock_wrlock(&prices);
    pthread_barrier_wait(&all_have_one);
    take_journal();
    return unused;
}

VISIBLE void read_prices(void) { pthread_rwlock_rdlock(&prices); }

static void *importer(void *unused) {
    name_self("importer", -1);
    take_journal();
    pthread_barrier_wait(&all_have_one);
    read_prices();
    return unused;
}

static void *locks_twice(void *unused) {
    name_self("locks-twice", -1);
    take_journal();
    take_journal();
    return unused;
}

static void *forgetful(void *unused) {
    name_self("forgetful", -1);
    take_journal();
    return unused;
}

static void *wants_journal(void *number) {
    name_self("wants", (long)number);
    take_journal();
    return NULL;
}

static void *joins(void *other) {
    name_self("joins", -1);
    pthread_barrier_wait(&all_have_one);
    pthread_join(*(pthread_t *)other, NULL);
    return NULL;
}

static void *waits_for_news(void *unused) {
    name_self("waits-for-news", -1);
    pthread_mutex_lock(&journal);
    for (;;) pthread_cond_wait(&news, &journal);
    return unused;
}

static void *waits_for_ticket(void *unused) {
    name_self("waits-for-ticket", -1);
    for (;;) sem_wait(&tickets);
    return unused;
}

int main(int argc, char **argv) {
    limit_own_life();
    const char *mode = argc > 1 ? argv[1] : "abba";
    long count = number_argument(argc, argv, 2, -1);
    sem_init(&tickets, 0, 0);
    if (strcmp(mode, "abba") == 0) {
        pthread_barrier_init(&all_have_one, NULL, 2);
        start_thread(transfer_out, NULL);
        start_thread(transfer_in, NULL);
        sleep_ns(100000000L);
        for (long i = 0; i < (count < 0 ? 3 : count); i++) start_thread(auditor, (void *)i);
    } else if (strcmp(mode, "ring") == 0) {
        ring_size = count < 2 || count > 64 ? 5 : count;
        pthread_barrier_init(&all_have_one, NULL, (unsigned)ring_size);
        for (long i = 0; i < ring_size; i++) pthread_mutex_init(&ring[i], NULL);
        for (long i = 0; i < ring_size; i++) start_thread(ring_member, (void *)i);
    } else if (strcmp(mode, "rwlock") == 0) {
        pthread_barrier_init(&all_have_one, NULL, 2);
        start_thread(reporter, NULL);
        start_thread(importer, NULL);
    } else if (strcmp(mode, "self") == 0) {
        start_thread(locks_twice, NULL);
    } else if (strcmp(mode, "gone") == 0) {
        pthread_join(start_thread(forgetful, NULL), NULL);
        for (long i = 0; i < 2; i++) start_thread(wants_journal, (void *)i);
    } else if (strcmp(mode, "join") == 0) {
        pthread_barrier_init(&all_have_one, NULL, 3);
        first = start_thread(joins, &second);
        second = start_thread(joins, &first);
        pthread_barrier_wait(&all_have_one);
    } else {
        start_thread(waits_for_news, NULL);
        start_thread(waits_for_ticket, NULL);
    }
    // By now everybody stands where they stay.
    sleep_ns(200000000L);
    say_ready();
    wait_for_stop();
    return 0;
}
