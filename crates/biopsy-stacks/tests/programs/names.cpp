// Names, inlining and lines: compared with what nm, objdump and addr2line say.
#include <cstdio>
#include <cstring>
#include <cmath>
#include <string>
#include <vector>

extern "C" void no_size(void);
asm(".text\n.globl no_size\n.type no_size, @function\nno_size:\nnop\nnop\nnop\nret\n");

namespace shop {

template <typename T> struct Basket {
    std::vector<T> items;
    __attribute__((noinline)) void add(const T &item) { items.push_back(item); }
    inline __attribute__((always_inline)) size_t weigh(size_t factor) const {
        size_t sum = 0;
        for (const T &item : items) sum += price(item) * factor;
        return sum;
    }
    static inline __attribute__((always_inline)) size_t price(const T &item) {
        char text[64];
        std::snprintf(text, sizeof text, "%zu", item.size());
        return std::strlen(text) + item.size();
    }
};

static __attribute__((noinline)) double till(double amount) { return std::cbrt(amount) + std::hypot(amount, 2); }

} // namespace shop

__attribute__((noinline)) int checkout(int argc, char **argv) {
    shop::Basket<std::string> basket;
    for (int i = 0; i < argc; i++) basket.add(argv[i]);
    size_t weight = basket.weigh(static_cast<size_t>(argc));
    std::puts("weighed");
    return static_cast<int>(shop::till(static_cast<double>(weight)));
}

int main(int argc, char **argv) {
    no_size();
    return checkout(argc, argv) == -1;
}
