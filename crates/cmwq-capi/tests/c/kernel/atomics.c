/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Atomics, exchanges, bits and reference counts, under threads. */
#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/kernel.h>
#include <linux/kref.h>
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, EACH = 20000 };

static atomic_t count = ATOMIC_INIT(0);
static atomic64_t wide = ATOMIC64_INIT(0);
static atomic_long_t length = ATOMIC_LONG_INIT(0);
static unsigned long bits[3];
static unsigned long word, locked_sum;
static int mine;
static struct kref kref;
static int released;

static void release(struct kref *ref)
{
	CHECK(ref == &kref);
	released++;
}

static void *work(void *arg)
{
	int me = *(int *)arg, i;

	for (i = 0; i < EACH; i++) {
		unsigned long was;
		long old = atomic_long_read(&length);

		atomic_inc(&count);
		atomic64_fetch_add(3, &wide);
		while (!atomic_long_try_cmpxchg(&length, &old, old + 2))
			;
		change_bit(me, bits);
		while (test_and_set_bit_lock(100, bits))
			cpu_relax();
		locked_sum++;
		clear_bit_unlock(100, bits);
		do {
			was = READ_ONCE(word);
		} while (cmpxchg(&word, was, was + 1) != was);
		CHECK(atomic_add_unless(&count, 0, -1));
		kref_get(&kref);
		CHECK(!kref_put(&kref, release));
	}
	if (atomic_cmpxchg(&count, -5, 0) == -5)
		mine++;
	return NULL;
}

static void single(void)
{
	DECLARE_BITMAP(map, 200) = {0};
	unsigned long n, sum = 0;
	atomic_t a = ATOMIC_INIT(5);
	int old = 4;
	char byte = 1;
	void *pointer = &byte;

	CHECK(!atomic_try_cmpxchg(&a, &old, 9) && old == 5 && atomic_try_cmpxchg(&a, &old, 9));
	CHECK(atomic_fetch_or(6, &a) == 9 && atomic_read(&a) == 15 && atomic_fetch_andnot(8, &a) == 15);
	CHECK(atomic_dec_if_positive(&a) == 6 && atomic_sub_and_test(6, &a) && atomic_dec_if_positive(&a) == -1);
	CHECK(!atomic_inc_not_zero(&a) && atomic_fetch_inc(&a) == 0 && atomic_inc_not_zero(&a) && atomic_xchg(&a, -1) == 2);
	CHECK(atomic_inc_and_test(&a) && atomic_add_negative(-1, &a) && !atomic_inc_unless_negative(&a));
	CHECK(xchg(&byte, 2) == 1 && cmpxchg(&byte, 3, 4) == 2 && byte == 2 && xchg(&pointer, NULL) == &byte && !pointer);
	__set_bit(3, map);
	set_bit(64, map);
	CHECK(!test_and_set_bit(199, map) && test_and_set_bit(199, map) && test_and_clear_bit(3, map) && !test_bit(3, map));
	set_bit(65, map);
	for_each_set_bit(n, map, 200)
		sum += n;
	CHECK(sum == 64 + 65 + 199 && find_next_zero_bit(map, 200, 64) == 66 && find_first_bit(map, 60) == 60);
	CHECK(__ffs(8) == 3 && __fls(9) == 3 && fls(0) == 0 && fls(8) == 4 && fls64(1ull << 40) == 41 && ffz(7) == 3);
	CHECK(GENMASK(7, 4) == 0xf0 && hweight32(0xff) == 8 && BITS_TO_LONGS(65) == 2);
}

static void references(void)
{
	refcount_t r = REFCOUNT_INIT(1);

	CHECK(refcount_inc_not_zero(&r) && !refcount_dec_and_test(&r) && refcount_dec_not_one(&r) == 0 && refcount_dec_if_one(&r));
	CHECK(!refcount_inc_not_zero(&r));
	/* Back from 0 is a mistake that is told and sticks. */
	refcount_inc(&r);
	CHECK(refcount_read(&r) == (unsigned int)REFCOUNT_SATURATED && !refcount_dec_and_test(&r));
	refcount_set(&r, INT_MAX);
	refcount_inc(&r);
	CHECK(refcount_read(&r) == (unsigned int)REFCOUNT_SATURATED);
	refcount_set(&r, 0);
	CHECK(!refcount_dec_and_test(&r) && refcount_read(&r) == (unsigned int)REFCOUNT_SATURATED);
}

int main(void)
{
	pthread_t threads[THREADS];
	int ids[THREADS], i;

	kref_init(&kref);
	for (i = 0; i < THREADS; i++) {
		ids[i] = i;
		CHECK(!pthread_create(&threads[i], NULL, work, &ids[i]));
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(atomic_read(&count) == THREADS * EACH && atomic64_read(&wide) == 3 * THREADS * EACH);
	CHECK(atomic_long_read(&length) == 2 * THREADS * EACH && word == THREADS * EACH && locked_sum == THREADS * EACH);
	CHECK(bits[0] == 0 && !mine && !released && kref_put(&kref, release) && released == 1);
	single();
	references();
	return 0;
}
