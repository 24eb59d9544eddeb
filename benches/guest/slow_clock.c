// Preloaded into an emulator, this makes its clock go slower than the machine's: the emulated computer then does more in a second of its own.
//
// Built and used by scripts/guest --faster N. The emulator counts its time by clock_gettime(CLOCK_MONOTONIC) and sleeps in ppoll; its time stamp counter
// stays the machine's, so that the emulated kernel finds a processor of N times the frequency.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
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
