/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two streams of an engine for parallel data, whose masks are written meanwhile, each of which must end its jobs in order; and a job that many
 * threads share.
 *
 * Seen to fail with: jobs that begin while streams are replaced; no grace period when one is; jobs sent on before their turn; reorder lists that
 * are not sorted; no reference of the thread that reorders; chunks that overlap.
 */
#include "parallel_engine.h"

#include <linux/delay.h>

enum { NR_JOBS = 20000, NR_MASKS = 40, NR_PARTS = 100000 };

struct packet {
	struct job job;
	struct submitter *from;
	unsigned int number, doubled;
};

struct submitter {
	struct stream *stream;
	unsigned int next;
	atomic_t left;
	struct completion done;
	struct task_struct *task;
};

static struct engine *engine;
static u8 *seen;

static void packet_parallel(struct job *job)
{
	struct packet *packet = container_of(job, struct packet, job);

	packet->doubled = 2 * packet->number;
	/* Those behind it overtake it here. */
	if (packet->number % 64 == 0)
		usleep_range(50, 100);
	do_serial(job, engine);
}

static void packet_serial(struct job *job)
{
	struct packet *packet = container_of(job, struct packet, job);
	struct submitter *from = packet->from;

	CHECK(packet->number == from->next && packet->doubled == 2 * from->next);
	WRITE_ONCE(from->next, from->next + 1);
	kfree(packet);
	if (atomic_dec_and_test(&from->left))
		complete(&from->done);
}

static int submit(void *arg)
{
	struct submitter *from = (struct submitter *)arg;
	unsigned int i;

	for (i = 0; i < NR_JOBS; i++) {
		struct packet *packet = kzalloc(sizeof(*packet), GFP_KERNEL);
		/* One CPU for all of a stream: the order is that of its callbacks. */
		int serial_cpu = 0;

		CHECK(packet);
		packet->from = from;
		packet->number = i;
		packet->job.parallel = packet_parallel;
		packet->job.serial = packet_serial;
		while (do_parallel(from->stream, &packet->job, &serial_cpu) == -EBUSY)
			cond_resched();
	}
	return 0;
}

static void count_part(unsigned long from, unsigned long to, void *arg)
{
	for (; from < to; from++)
		((u8 *)arg)[from]++;
}

int main(void)
{
	static struct submitter submitters[2];
	struct shared_job shared = {.end = NR_PARTS, .part = count_part};
	unsigned int i, before, online = num_online_cpus();
	uint64_t until = cmwq_now_ns() + SOON_NS;
	char text[64];
	int state;

	state = cpuhp_setup_state_multi(CPUHP_AP_ONLINE_DYN, "engine:online", cpu_online_engine, NULL);
	CHECK(state > 0);
	hp_online = (enum cpuhp_state)state;
	CHECK(cpuhp_setup_state_multi(CPUHP_PADATA_DEAD, "engine:dead", NULL, cpu_dead_engine) == 0);
	engine = engine_alloc("toycrypt");
	CHECK(kobject_add(&engine->kobj, kernel_kobj, "%s", "toycrypt") == 0);
	for (i = 0; i < 2; i++) {
		submitters[i].stream = stream_alloc(engine);
		atomic_set(&submitters[i].left, NR_JOBS);
		init_completion(&submitters[i].done);
	}
	for (i = 0; i < 2; i++) {
		submitters[i].task = kthread_run(submit, &submitters[i], "submit/%u", i);
		CHECK(!IS_ERR(submitters[i].task));
	}
	for (i = 0; i < NR_MASKS || (cmwq_now_ns() < until && (atomic_read(&submitters[0].left) || atomic_read(&submitters[1].left))); i++) {
		const char *path = i % 2 ? "/sys/kernel/toycrypt/serial_cpumask" : "/sys/kernel/toycrypt/parallel_cpumask";
		int cpu = (int)cpumask_nth(i / 2 % online, cpu_online_mask);
		long length = scnprintf(text, sizeof(text), "%*pb\n", cpumask_pr_args(cpumask_of(cpu))), read;

		CHECK(cmwq_sysfs_write(path, text, (size_t)length) == length);
		before = READ_ONCE(submitters[0].next);
		read = cmwq_sysfs_read(path, text + 32, 32);
		CHECK(read == length && memcmp(text, text + 32, (size_t)length) == 0);
		/* On with the jobs before the next change. */
		CHECK_SOON(READ_ONCE(submitters[0].next) - before >= 50 || !atomic_read(&submitters[0].left));
	}
	CHECK(cmwq_sysfs_write("/sys/kernel/toycrypt/serial_cpumask", "0", 1) == -EINVAL);
	for (i = 0; i < 2; i++) {
		CHECK(wait_for_completion_timeout(&submitters[i].done, 120 * HZ));
		CHECK(kthread_stop(submitters[i].task) == 0 && submitters[i].next == NR_JOBS);
	}

	seen = kzalloc(NR_PARTS, GFP_KERNEL);
	shared.arg = seen;
	do_multithreaded(&shared, 2 * online);
	for (i = 0; i < NR_PARTS; i++)
		CHECK(seen[i] == 1);
	kfree(seen);

	flush_workqueue(engine->parallel_wq);
	flush_workqueue(engine->serial_wq);
	for (i = 0; i < 2; i++)
		stream_free(submitters[i].stream);
	kobject_del(&engine->kobj);
	kobject_put(&engine->kobj);
	CHECK(released);
	cpuhp_remove_multi_state(CPUHP_PADATA_DEAD);
	cpuhp_remove_multi_state(hp_online);
	return 0;
}
