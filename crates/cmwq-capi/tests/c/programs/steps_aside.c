/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program that brings its own of everything. */
#include <stddef.h>
#include <stdint.h>

#define CMWQ_NO_CONTAINER_OF
#define CMWQ_NO_TYPES
#define CMWQ_NO_LIST_HEAD
#define CMWQ_NO_JIFFIES
#define CMWQ_NO_CPUMASK
#define CMWQ_NO_COMPLETION
#define CMWQ_NO_ERR
#define CMWQ_NO_KERNEL_MACROS
#define CMWQ_NO_SYSTEM_WORKQUEUES
/* Its jiffies are hundredths of a second. */
#define CMWQ_NSEC_PER_JIFFY 10000000UL

#include <linux/completion.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/workqueue.h>

typedef unsigned long u64;
typedef struct { int bits; } gfp_t;
struct list_head { void *both[2]; };
struct cpumask { int none; };
struct completion { int mine; };
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))
#define HZ 100
#define READ_ONCE(x) (x)

static unsigned long jiffies(void)
{
	return (unsigned long)(cmwq_now_ns() / CMWQ_NSEC_PER_JIFFY);
}

static int ERR_PTR(int mine)
{
	return mine;
}

static struct workqueue_struct *system_wq;

struct owner {
	struct delayed_work dwork;
	unsigned long ran_at;
};

static void run(struct work_struct *work)
{
	container_of(to_delayed_work(work), struct owner, dwork)->ran_at = jiffies();
}

int main(void)
{
	struct owner owner;
	struct list_head list = {{NULL, NULL}};
	struct completion done = {ERR_PTR(0)};
	unsigned long start = jiffies();
	gfp_t none = {0};

	system_wq = alloc_workqueue("own", WQ_UNBOUND, 0);
	INIT_DELAYED_WORK(&owner.dwork, run);
	if (!queue_delayed_work(system_wq, &owner.dwork, HZ / 20))
		return 1;
	while (delayed_work_pending(&owner.dwork))
		;
	destroy_workqueue(system_wq);
	return owner.ran_at - start < HZ / 20 || list.both[0] || done.mine || none.bits || (u64)READ_ONCE(none.bits);
}
