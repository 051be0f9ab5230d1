// Healthy, with memory of every kind whose contents are known by their addresses. It says where on the READY line,
// `name:start:end:step` (one page of each `step` is written), and ends with code 4 when a byte has changed.
#include "target.h"

#include <fcntl.h>
#include <sys/mman.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define PAGE 4096UL

struct area {
    const char *name;
    char *start;
    size_t bytes;
    size_t step;
    int unreadable;
};

static struct area areas[16];
static int count;

// Half of each page is noise, half is not: dumps of it can be compressed.
static uint64_t word_at(uint64_t address) {
    return address & 0x800 ? address : address * 0x9e3779b97f4a7c15UL ^ address >> 29;
}

static void add(const char *name, void *start, size_t bytes, size_t step) {
    if (start == MAP_FAILED) {
        perror(name);
        _exit(2);
    }
    for (size_t page = 0; page < bytes; page += step * PAGE) {
        uint64_t *words = (uint64_t *)((char *)start + page);
        for (size_t at = 0; at < PAGE / 8; at++) words[at] = word_at((uint64_t)&words[at]);
    }
    areas[count++] = (struct area){name, start, bytes, step, 0};
}

static void *anonymous(size_t bytes, int flags) {
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void check(void) {
    for (int number = 0; number < count; number++) {
        struct area *area = &areas[number];
        if (area->unreadable) mprotect(area->start, area->bytes, PROT_READ);
        for (size_t page = 0; page < area->bytes; page += area->step * PAGE) {
            uint64_t *words = (uint64_t *)(area->start + page);
            for (size_t at = 0; at < PAGE / 8; at++) {
                if (words[at] == word_at((uint64_t)&words[at])) continue;
                fprintf(stderr, "%s: %p has changed\n", area->name, (void *)&words[at]);
                _exit(4);
            }
        }
    }
}

int main(int argc, char **argv) {
    limit_own_life();
    size_t bytes = (size_t)number_argument(argc, argv, 1, 16) << 20;

    void *small = anonymous(bytes, MAP_PRIVATE);
    madvise(small, bytes, MADV_NOHUGEPAGE);
    add("private", small, bytes, 1);

    char *huge = anonymous(bytes + (2 << 20), MAP_PRIVATE);
    huge = (char *)(((uintptr_t)huge + (2 << 20) - 1) & ~(uintptr_t)((2 << 20) - 1));
    madvise(huge, bytes, MADV_HUGEPAGE);
    add("huge", huge, bytes, 1);

    // One page in 64 MiB is touched of each 4 MiB.
    add("sparse", anonymous(64 << 20, MAP_PRIVATE), 64 << 20, 1024);
    add("shared", anonymous(1 << 20, MAP_SHARED), 1 << 20, 1);

    int memory = memfd_create("self checking", MFD_CLOEXEC);
    if (memory < 0 || ftruncate(memory, 8 << 20) != 0) _exit(2);
    add("memfd", mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0), 8 << 20, 16);

    void *kept = anonymous(1 << 20, MAP_PRIVATE);
    madvise(kept, 1 << 20, MADV_DONTFORK);
    add("dontfork", kept, 1 << 20, 1);

    void *wiped = anonymous(1 << 20, MAP_PRIVATE);
    madvise(wiped, 1 << 20, MADV_WIPEONFORK);
    add("wipeonfork", wiped, 1 << 20, 1);

    void *readonly = anonymous(1 << 20, MAP_PRIVATE);
    add("readonly", readonly, 1 << 20, 1);
    mprotect(readonly, 1 << 20, PROT_READ);

    // Its own program, changed privately: pages of which only this process has the bytes.
    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    add("own-copy", mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, self, 0), PAGE, 1);

    void *hidden = anonymous(1 << 20, MAP_PRIVATE);
    add("hidden", hidden, 1 << 20, 1);
    mprotect(hidden, 1 << 20, PROT_NONE);
    areas[count - 1].unreadable = 1;

    printf("READY %d", (int)getpid());
    for (int number = 0; number < count; number++) {
        struct area *area = &areas[number];
        printf(" %s:%lx:%lx:%zu", area->name, (unsigned long)area->start,
               (unsigned long)(area->start + area->bytes), area->step);
    }
    printf("\n");
    fflush(stdout);

    char byte;
    for (;;) {
        ssize_t got = read(0, &byte, 1);
        if (got == 0 || (got < 0 && errno != EINTR)) break;
    }
    check();
    return 0;
}
