/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernel's edge cases through the C ABI, under the kernel's names. Run by scripts/capi-conformance, plainly, under valgrind and
 * with sanitizers.
 *
 * Not here, since C cannot see or cause them: idle workers let go after 300 s, the culler, the shard table, scope names as text,
 * CPUs that go offline, the watchdog, statistics, panicking functions. The library's own tests have them.
 */
#include "harness.h"

static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;
static char said[65536];

static void hear(const char *text, void *arg)
{
	(void)arg;
	pthread_mutex_lock(&said_lock);
	if (strlen(said) + strlen(text) + 2 < sizeof(said)) {
		strcat(said, text);
		strcat(said, "\n");
	}
	pthread_mutex_unlock(&said_lock);
}

void warnings_reset(void)
{
	pthread_mutex_lock(&said_lock);
	said[0] = '\0';
	pthread_mutex_unlock(&said_lock);
}

int warnings(const char *text)
{
	const char *at = said;
	int count = 0;

	pthread_mutex_lock(&said_lock);
	while ((at = strstr(at, text))) {
		count++;
		at += strlen(text);
	}
	pthread_mutex_unlock(&said_lock);
	return count;
}

void probe_run(struct work_struct *work)
{
	struct probe *probe = container_of(work, struct probe, work);
	int now = atomic_fetch_add(&probe->running, 1) + 1;

	if (now > atomic_load(&probe->most))
		atomic_store(&probe->most, now);
	atomic_fetch_add(&probe->runs, 1);
	while (atomic_load(&probe->hold))
		sleep_ms(1);
	atomic_fetch_sub(&probe->running, 1);
}

void probe_init(struct probe *probe)
{
	memset(probe, 0, sizeof(*probe));
	INIT_WORK(&probe->work, probe_run);
}

void probe_hold(struct probe *probe, struct workqueue_struct *wq)
{
	atomic_store(&probe->hold, true);
	assert_true(queue_work(wq, &probe->work));
	assert_true(becomes(atomic_load(&probe->running) == 1));
}

void probe_let_go(struct probe *probe)
{
	atomic_store(&probe->hold, false);
}

struct workqueue_struct *new_wq(unsigned int flags, int max_active)
{
	static int number;
	struct workqueue_struct *wq = alloc_workqueue("test-%d", flags, max_active, number++);

	assert_non_null(wq);
	return wq;
}

int main(void)
{
	int failed;

	cmwq_set_warning_handler(hear, NULL);
	failed = items_tests() + delayed_tests() + flush_tests() + limit_tests() + queue_tests() + misuse_tests();
	return failed ? 1 : 0;
}
