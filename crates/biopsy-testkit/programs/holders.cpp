// Sick, in C++: threads that wait for locks which say nothing of their owner. Argument 1 says how. Names of threads are the truth, as
// in holders.rs: `holds`, `stuck`, `waits`, `past`, `later`.
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>

#define OWN __attribute__((noinline, noclone))

struct Table {
    long rows = 1;
    std::shared_mutex lock;
    long more = 1;
};

struct Account {
    long padding = 1;
    std::mutex lock;
};

static std::shared_mutex global;
static std::unique_ptr<Table> orders, prices;
static std::unique_ptr<Account> savings;
static sem_t printer, scanner;
static pthread_spinlock_t spin;

static void rest(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }
static void for_ever() { rest(3600000); }

template <class Work>
static void start(const char *name, Work work) {
    std::string text = name;
    std::thread([=] {
        pthread_setname_np(pthread_self(), text.c_str());
        work();
    }).detach();
}

OWN void leaf(Table &table) {
    for_ever();
    table.rows++;
}

OWN void reads(Table &table) {
    std::shared_lock<std::shared_mutex> guard(table.lock);
    leaf(table);
}

OWN void writes(Table &table) {
    std::unique_lock<std::shared_mutex> guard(table.lock);
    leaf(table);
}

OWN void guards(Table &table) {
    std::lock_guard<std::shared_mutex> guard(table.lock);
    leaf(table);
}

OWN void by_hand(Table &table) {
    table.lock.lock();
    leaf(table);
    table.lock.unlock();
}

OWN void take(Table &table) { table.lock.lock(); }
OWN void give(Table &table) { table.lock.unlock(); }

OWN void by_helpers(Table &table) {
    take(table);
    leaf(table);
    give(table);
}

OWN void given_back_early(Table &table) {
    std::unique_lock<std::shared_mutex> guard(table.lock);
    table.rows++;
    guard.unlock();
    leaf(table);
    if (table.more > 5) guard.lock();
}

OWN void scope_ended(Table &table) {
    {
        std::lock_guard<std::shared_mutex> guard(table.lock);
        table.rows++;
    }
    leaf(table);
}

OWN void takes_later(Table &table) {
    leaf(table);
    std::lock_guard<std::shared_mutex> guard(table.lock);
    table.rows++;
}

OWN void deferred(Table &table, bool takes) {
    std::unique_lock<std::shared_mutex> guard(table.lock, std::defer_lock);
    if (takes) guard.lock();
    leaf(table);
}

OWN void reads_early(Table &table) {
    std::shared_lock<std::shared_mutex> guard(table.lock);
    table.rows++;
    guard.unlock();
    leaf(table);
    if (table.more > 5) guard.lock();
}

OWN void reads_scope(Table &table) {
    {
        std::shared_lock<std::shared_mutex> guard(table.lock);
        table.rows++;
    }
    leaf(table);
}

OWN void reads_later(Table &table) {
    leaf(table);
    std::shared_lock<std::shared_mutex> guard(table.lock);
    table.rows++;
}

OWN void reads_deferred(Table &table, bool takes) {
    std::shared_lock<std::shared_mutex> guard(table.lock, std::defer_lock);
    if (takes) guard.lock();
    leaf(table);
}

// As C does it: one way out for all.
OWN int reads_by_hand(Table &table, bool fails) {
    int result = -1;
    auto *lock = static_cast<pthread_rwlock_t *>(table.lock.native_handle());
    pthread_rwlock_rdlock(lock);
    if (fails) goto out;
    leaf(table);
    if (table.more > 7) goto out;
    result = 0;
out:
    pthread_rwlock_unlock(lock);
    return result;
}

OWN void first_second(Table &first, Table &second) {
    std::unique_lock<std::shared_mutex> a(first.lock);
    rest(200);
    std::shared_lock<std::shared_mutex> b(second.lock);
    first.rows += second.rows;
}

OWN void prints() {
    sem_wait(&printer);
    rest(200);
    sem_wait(&scanner);
    rest(1);
    sem_post(&scanner);
    sem_post(&printer);
}

OWN void scans() {
    sem_wait(&scanner);
    rest(200);
    sem_wait(&printer);
    rest(1);
    sem_post(&printer);
    sem_post(&scanner);
}

OWN void spins_held() {
    pthread_spin_lock(&spin);
    for_ever();
    pthread_spin_unlock(&spin);
}

// One that holds, several that do not, one that waits, in one table.
static void around(void (*holds)(Table &)) {
    start("past-scope", [] { scope_ended(*orders); });
    rest(50);
    start("past-early", [] { given_back_early(*orders); });
    rest(50);
    start("past-flag", [] { deferred(*orders, false); });
    start("later", [] { takes_later(*orders); });
    rest(50);
    start("holds", [=] { holds(*orders); });
    rest(100);
    start("waits-w", [] { writes(*orders); });
    rest(100);
    start("waits-r", [] { std::shared_lock<std::shared_mutex> guard(orders->lock); });
}

// The same among readers, of whom the lock keeps a number and nothing else.
static void among_readers(void (*holds)(Table &)) {
    start("past-scope", [] { reads_scope(*orders); });
    start("past-early", [] { reads_early(*orders); });
    start("past-flag", [] { reads_deferred(*orders, false); });
    start("later", [] { reads_later(*orders); });
    start("holds", [=] { holds(*orders); });
    rest(200);
    start("waits-w", [] { writes(*orders); });
}

int main(int count, char **arguments) {
    std::string mode = count > 1 ? arguments[1] : "";
    alarm(600);
    orders = std::make_unique<Table>();
    prices = std::make_unique<Table>();
    savings = std::make_unique<Account>();
    sem_init(&printer, 0, 1);
    sem_init(&scanner, 0, 1);
    pthread_spin_init(&spin, 0);
    if (mode == "reader") around(reads);
    if (mode == "writer") around(writes);
    if (mode == "guard") around(guards);
    if (mode == "by-hand") around(by_hand);
    if (mode == "helpers") around(by_helpers);
    if (mode == "deferred") around([](Table &table) { deferred(table, true); });
    if (mode == "among") among_readers(reads);
    if (mode == "among-flag") among_readers([](Table &table) { reads_deferred(table, true); });
    if (mode == "among-hand") among_readers([](Table &table) { reads_by_hand(table, false); });
    if (mode == "abba") {
        start("stuck-1", [] { first_second(*orders, *prices); });
        start("stuck-2", [] { first_second(*prices, *orders); });
    }
    if (mode == "upgrade") {
        start("stuck", [] {
            std::shared_lock<std::shared_mutex> guard(orders->lock);
            rest(50);
            std::unique_lock<std::shared_mutex> again(orders->lock);
        });
    }
    if (mode == "global") {
        start("holds", [] {
            std::shared_lock<std::shared_mutex> guard(global);
            for_ever();
        });
        rest(100);
        start("waits", [] { std::unique_lock<std::shared_mutex> guard(global); });
    }
    if (mode == "mixed") {
        // A mutex, which has an owner, and a lock that is read.
        start("stuck-1", [] {
            std::lock_guard<std::mutex> guard(savings->lock);
            rest(200);
            std::unique_lock<std::shared_mutex> table(orders->lock);
        });
        start("stuck-2", [] {
            std::shared_lock<std::shared_mutex> table(orders->lock);
            rest(200);
            std::lock_guard<std::mutex> guard(savings->lock);
        });
    }
    if (mode == "semaphores") {
        start("stuck-1", prints);
        start("stuck-2", scans);
    }
    if (mode == "signal") {
        start("past", [] { for (;;) sem_wait(&printer), sem_wait(&printer); });
    }
    if (mode == "spin") {
        start("holds", spins_held);
        rest(50);
        start("waits", [] { pthread_spin_lock(&spin); });
    }
    rest(800);
    printf("READY %d\n", getpid());
    fflush(stdout);
    while (getchar() != EOF) {
    }
    _exit(0);
}
