/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that are cancelled while they wait in a lock of the headers: they get the lock and end later, where a cancellation acts, and the lock is
 * good for others.
 *
 * Seen to fail with: pthread_cond_wait() in down_write() and write_lock().
 */
#include <linux/rwlock.h>
#include <linux/rwsem.h>

#include "check.h"

static DECLARE_RWSEM(sem);
static DEFINE_RWLOCK(lock);
static int locked, done;

static void *locks_sem(void *arg)
{
	down_write(&sem);
	__atomic_fetch_add(&locked, 1, __ATOMIC_SEQ_CST);
	up_write(&sem);
	while (!arg)
		pthread_testcancel();
	return arg;
}

static void *locks_lock(void *arg)
{
	__atomic_store_n(&done, 1, __ATOMIC_SEQ_CST);
	write_lock(&lock);
	__atomic_fetch_add(&locked, 1, __ATOMIC_SEQ_CST);
	write_unlock(&lock);
	while (!arg)
		pthread_testcancel();
	return arg;
}

static void *both(void *arg)
{
	pthread_t thread;
	void *value;

	down_read(&sem);
	CHECK(!pthread_create(&thread, NULL, locks_sem, NULL));
	CHECK_SOON(rwsem_is_contended(&sem));
	CHECK(!pthread_cancel(thread));
	up_read(&sem);
	CHECK(!pthread_join(thread, &value) && value == PTHREAD_CANCELED && locked == 1);
	CHECK(down_write_trylock(&sem));
	up_write(&sem);

	read_lock(&lock);
	CHECK(!pthread_create(&thread, NULL, locks_lock, NULL));
	/* It waits, or is about to. */
	CHECK_SOON(__atomic_load_n(&done, __ATOMIC_SEQ_CST));
	CHECK(!pthread_cancel(thread));
	read_unlock(&lock);
	CHECK(!pthread_join(thread, &value) && value == PTHREAD_CANCELED && locked == 2);
	CHECK(write_trylock(&lock));
	write_unlock(&lock);
	__atomic_store_n(&done, 2, __ATOMIC_SEQ_CST);
	return arg;
}

int main(void)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, both, NULL));
	CHECK_SOON(__atomic_load_n(&done, __ATOMIC_SEQ_CST) == 2);
	pthread_join(thread, NULL);
	return 0;
}
