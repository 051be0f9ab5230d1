// Healthy, and one of its functions can be made slower: three threads take orders that come at a fixed pace, whatever they cost, and
// work on each in five functions of their own; an audit line is written under a lock. Arguments: the function that is slower (0 to 4,
// 5: none), by how many percent, orders a second (800).
#include "target.h"

#define WORKERS 3

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER, audit_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static long waiting;
static volatile uint64_t sink;
// Rounds of each function for an order, in thousands.
static long rounds[5] = {250, 1300, 130, 200, 300};

static inline uint64_t mix(uint64_t word, long thousands) {
    for (long i = 0; i < thousands * 1000 / 4; i++) word = (word ^ (word >> 29)) * 0xbf58476d1ce4e5b9u + (uint64_t)i;
    return word;
}

VISIBLE uint64_t parse_order(uint64_t word, long size) { return mix(word, rounds[0] * size / 100); }
VISIBLE uint64_t price_order(uint64_t word, long size) { return mix(word + 1, rounds[1] * size / 100); }
VISIBLE uint64_t check_stock(uint64_t word, long size) { return mix(word + 2, rounds[2] * size / 100); }
VISIBLE uint64_t render_invoice(uint64_t word, long size) { return mix(word + 3, rounds[3] * size / 100); }
VISIBLE uint64_t compress_page(uint64_t word, long size) { return mix(word + 4, rounds[4] * size / 100); }

VISIBLE void write_audit(uint64_t word) {
    pthread_mutex_lock(&audit_lock);
    sink += word;
    pthread_mutex_unlock(&audit_lock);
}

VISIBLE void handle_order(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    // Orders are not alike: from a half to three halves of the usual work.
    long size = 50 + (long)((*seed >> 33) % 101);
    uint64_t word = parse_order(*seed, size);
    word = price_order(word, size);
    word = check_stock(word, size);
    word = render_invoice(word, size);
    write_audit(compress_page(word, size));
}

VISIBLE void *order_worker(void *number) {
    uint64_t seed = (uint64_t)(uintptr_t)number + (uint64_t)getpid();
    prctl(PR_SET_NAME, "order-worker");
    for (;;) {
        pthread_mutex_lock(&queue_lock);
        while (waiting == 0) pthread_cond_wait(&work, &queue_lock);
        waiting--;
        pthread_mutex_unlock(&queue_lock);
        handle_order(&seed);
    }
    return NULL;
}

int main(int argc, char **argv) {
    long slower = number_argument(argc, argv, 1, 5), percent = number_argument(argc, argv, 2, 0);
    long pace = number_argument(argc, argv, 3, 800);
    limit_own_life();
    if (slower >= 0 && slower < 5) rounds[slower] += rounds[slower] * percent / 100;
    for (uintptr_t i = 0; i < WORKERS; i++) start_thread(order_worker, (void *)i);
    watch_stdin();
    say_ready();
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (;;) {
        next.tv_nsec += 1000000000L / pace;
        next.tv_sec += next.tv_nsec / 1000000000L;
        next.tv_nsec %= 1000000000L;
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) == EINTR) {
        }
        pthread_mutex_lock(&queue_lock);
        // What cannot be worked on is turned away: a server that is starved does not owe work for ever.
        if (waiting < 100) waiting++;
        pthread_cond_signal(&work);
        pthread_mutex_unlock(&queue_lock);
    }
}
