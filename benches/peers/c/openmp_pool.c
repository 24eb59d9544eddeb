/*
 * OpenMP's parallel loop. Each issuer is the first thread of a team of its own.
 */
#undef PEER_VERSION
#define PEER_VERSION "gcc " __VERSION__
#include "harness.h"
#include <omp.h>

static int threads;

static void start(int workers)
{
    threads = workers;
}

static uint64_t sum(const uint64_t *values, size_t count)
{
    uint64_t sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    {
        static __thread int unpinned;
        if (omp_get_thread_num() != 0 && !unpinned) {
            unpin();
            unpinned = 1;
        }
#pragma omp for
        for (size_t index = 0; index < count; index++)
            sum += element(values[index]);
    }
    return sum;
}

int main(int argc, char **argv)
{
    static const char *const rows[] = {"loop-1e5", "for", "loop-1e7", "for", NULL};
    static const struct ops openmp = {.peer = "openmp", .rows = rows, .start = start, .sum = sum};
    static const struct ops *const peers[] = {&openmp, NULL};
    return peer_main(argc, argv, peers);
}
