// A small library with everything that is read: symbols, PLT, unwind and debug information.
extern int outside(int);

static inline __attribute__((always_inline)) int twice(int number) { return outside(number) * 2; }

__attribute__((noinline)) static int local(int number) {
    volatile char space[40];
    space[0] = (char)number;
    return twice(number) + space[0];
}

int exported(int number) {
    int sum = 0;
    for (int i = 0; i < number; i++) sum += local(i) + twice(i);
    return sum;
}
