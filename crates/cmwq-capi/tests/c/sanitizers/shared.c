/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For race detectors: objects whose last owner frees them, data that readers and a writer share, values in attribute files. With -DRACE=N the
 * program leaves out, in one of them, what orders its accesses.
 */
/* First: it includes <linux/errno.h>, which is ours. */
#include <errno.h>
#include <linux/kobject.h>
#include <linux/kref.h>
#include <linux/rwlock.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>

#ifndef RACE
#define RACE 0
#endif
#ifndef ROUNDS
#define ROUNDS 100
#endif
enum { ITEMS = 8 };

static void check(int holds, int line)
{
	if (!holds) {
		fprintf(stderr, "line %d\n", line);
		exit(1);
	}
}

struct object {
	struct kref ref;
	struct work_struct work;
	long ours, theirs;
};

static atomic_t nr_freed;

static void release(struct kref *ref)
{
	struct object *object = container_of(ref, struct object, ref);

	check(object->ours == object->theirs || RACE != 0, __LINE__);
	atomic_inc(&nr_freed);
	kfree(object);
}

static void use(struct work_struct *work)
{
	struct object *object = container_of(work, struct object, work);

	object->theirs = 7;
	kref_put(&object->ref, release);
}

static DEFINE_RWLOCK(lock);
static long pair[2];
static struct work_struct items[ITEMS];

static void read_or_write(struct work_struct *work)
{
	if (work - items > 1) {
		read_lock(&lock);
		check(pair[0] == pair[1] || RACE != 0, __LINE__);
		read_unlock(&lock);
		return;
	}
#if RACE != 2
	write_lock(&lock);
#endif
	pair[0]++;
	pair[1]++;
#if RACE != 2
	write_unlock(&lock);
#endif
}

static DEFINE_SPINLOCK(limit_lock);
static int limit;

static ssize_t limit_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	int is;

	(void)kobj;
	(void)attr;
#if RACE != 3
	spin_lock(&limit_lock);
#endif
	is = limit;
#if RACE != 3
	spin_unlock(&limit_lock);
#endif
	return sysfs_emit(buf, "%d\n", is);
}

static ssize_t limit_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf, size_t count)
{
	int value;

	(void)kobj;
	(void)attr;
	if (kstrtoint(buf, 0, &value))
		return -EINVAL;
	spin_lock(&limit_lock);
	limit = value;
	spin_unlock(&limit_lock);
	return (ssize_t)count;
}

static struct kobj_attribute limit_attr = __ATTR_RW(limit);

static void look_at_file(struct work_struct *work)
{
	char text[16];

	if ((work - items) % 2)
		check(cmwq_sysfs_write("/sys/kernel/shared/limit", "12", 2) == 2, __LINE__);
	else
		check(cmwq_sysfs_read("/sys/kernel/shared/limit", text, sizeof(text)) >= 2, __LINE__);
}

static void run_all(struct workqueue_struct *wq, work_func_t func)
{
	int i;

	for (i = 0; i < ITEMS; i++) {
		INIT_WORK(&items[i], func);
		check(queue_work(wq, &items[i]), __LINE__);
	}
#if RACE == 2
	/* Beside the items, whichever thread runs them. */
	pair[0]++;
#endif
	flush_workqueue(wq);
}

int main(void)
{
	struct workqueue_struct *wq = alloc_workqueue("shared", WQ_UNBOUND, 0);
	struct kobject *kobj = kobject_create_and_add("shared", kernel_kobj);
	int round;

	check(wq && kobj && sysfs_create_file(kobj, &limit_attr.attr) == 0, __LINE__);
	for (round = 0; round < ROUNDS; round++) {
		struct object *object = kzalloc(sizeof(*object), GFP_KERNEL);

		kref_init(&object->ref);
		kref_get(&object->ref);
		INIT_WORK(&object->work, use);
		check(queue_work(wq, &object->work), __LINE__);
		object->ours = 7;
#if RACE == 1
		object->theirs = 7;
#endif
		kref_put(&object->ref, release);
		run_all(wq, read_or_write);
		run_all(wq, look_at_file);
	}
	check(atomic_read(&nr_freed) == ROUNDS, __LINE__);
	kobject_put(kobj);
	destroy_workqueue(wq);
	return 0;
}
