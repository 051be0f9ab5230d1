// A function that ends by jumping into another one: while that waits, the first is on no stack.
#include <stdio.h>
#include <unistd.h>

volatile int count;

__attribute__((noinline, noclone)) void wait_here(int add) {
    count += add;
    printf("main %d\n", getpid());
    fflush(stdout);
    // It may end, for all that the compiler knows: or else it would be called.
    while (count >= 0)
        pause();
}

__attribute__((noinline, noclone)) void think(int add) {
    count *= 3;
    wait_here(add + 1);
}

__attribute__((noinline, noclone)) void live(int add) {
    think(add);
    count += 2;
}

int main(void) {
    live(count);
    return count;
}
