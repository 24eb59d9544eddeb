// Preloaded into the emulator by scripts/guest.
//
// It makes the emulator's clock go N times slower than the machine's: the emulated computer then does more in a second of its own. The emulator counts its
// time by clock_gettime(CLOCK_MONOTONIC) and sleeps in ppoll; its time stamp counter stays the machine's, so that the emulated kernel finds a
// processor of N times the frequency.
//
// And it binds the thread of each emulated CPU to a CPU of the machine, round all of them: else the machine's kernel, which wakes that thread when the
// emulated CPU has something to do, may put two of them on one CPU, and the placements of the emulated kernel would not be seen.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int (*real_gettime)(clockid_t, struct timespec *);
static int (*real_ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
static long factor = 1;

__attribute__((constructor)) static void look_up(void) {
    const char *text = getenv("CMWQ_GUEST_FASTER");
    long number = text ? atol(text) : 1;
    if (number > 1)
        factor = number;
    real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    real_ppoll = (int (*)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *))dlsym(RTLD_NEXT, "ppoll");
}

static struct timespec scaled(const struct timespec *time, long times, long by) {
    __int128 ns = ((__int128)time->tv_sec * 1000000000 + time->tv_nsec) * times / by;
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

int clock_gettime(clockid_t clock, struct timespec *to) {
    if (!real_gettime)
        look_up();
    int status = real_gettime(clock, to);
    if (status == 0 && clock == CLOCK_MONOTONIC)
        *to = scaled(to, 1, factor);
    return status;
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask) {
    struct timespec longer;
    if (!real_ppoll)
        look_up();
    if (timeout) {
        longer = scaled(timeout, factor, 1);
        timeout = &longer;
    }
    return real_ppoll(fds, count, timeout, mask);
}

// The emulator names its threads by this, each its own; those of CPUs are "CPU 0/TCG" and so on.
int pthread_setname_np(pthread_t thread, const char *name) {
    static int (*real)(pthread_t, const char *);
    int number;
    if (!real)
        real = (int (*)(pthread_t, const char *))dlsym(RTLD_NEXT, "pthread_setname_np");
    if (sscanf(name, "CPU %d/", &number) == 1 && pthread_equal(thread, pthread_self())) {
        cpu_set_t allowed, one;
        sched_getaffinity(0, sizeof allowed, &allowed);
        number %= CPU_COUNT(&allowed);
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (!CPU_ISSET(cpu, &allowed) || number-- > 0)
                continue;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            break;
        }
    }
    return real(thread, name);
}
