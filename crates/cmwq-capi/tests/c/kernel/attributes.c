/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Objects with attribute files: their owners, when they go, what the program reads and writes by their paths, and what it may not.
 *
 * Seen to fail with: no wait for a store that runs, in cmwq_sysfs_drop_file(); the owner's own call counted as one to wait for; no
 * kobject_put() of the parent; a group's folder left; modes not looked at; a mask printed without its commas.
 */
#include <limits.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/kobject.h>
#include <linux/kthread.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>

#include "check.h"

struct engine {
	struct kobject kobj;
	int limit;
	struct cpumask cpus;
};

static int nr_released;
static struct completion begun, go_on;

#define to_engine(k) container_of(k, struct engine, kobj)

static void engine_release(struct kobject *kobj)
{
	nr_released++;
	kfree(to_engine(kobj));
}

struct engine_attribute {
	struct attribute attr;
	ssize_t (*show)(struct engine *engine, char *buf);
	ssize_t (*store)(struct engine *engine, const char *buf, size_t count);
};

static ssize_t limit_show(struct engine *engine, char *buf)
{
	return sysfs_emit(buf, "%d\n", engine->limit);
}

static ssize_t limit_store(struct engine *engine, const char *buf, size_t count)
{
	int value, failed = kstrtoint(buf, 0, &value);

	if (failed)
		return failed;
	engine->limit = value;
	return (ssize_t)count;
}

static ssize_t cpus_show(struct engine *engine, char *buf)
{
	int length = snprintf(buf, PAGE_SIZE, "%*pb\n", 40, (void *)cpumask_bits(&engine->cpus));

	return length < (int)PAGE_SIZE ? length : -EINVAL;
}

static ssize_t cpus_store(struct engine *engine, const char *buf, size_t count)
{
	struct cpumask given;
	int failed;

	cpumask_clear(&given);
	failed = cmwq_bits_parse_mask(buf, count, cpumask_bits(&given), 40);
	if (failed)
		return failed;
	engine->cpus = given;
	return (ssize_t)count;
}

static ssize_t slow_store(struct engine *engine, const char *buf, size_t count)
{
	(void)buf;
	complete(&begun);
	wait_for_completion(&go_on);
	engine->limit = -1;
	return (ssize_t)count;
}

static ssize_t end_store(struct engine *engine, const char *buf, size_t count);

static struct engine_attribute limit_attr = __ATTR_RW(limit), cpus_attr = __ATTR_RW_MODE(cpus, 0600), slow_attr = __ATTR_WO(slow),
			       end_attr = __ATTR_WO(end), secret_attr = __ATTR(secret, 0, limit_show, limit_store),
			       none_attr = __ATTR(none, 0644, NULL, NULL);

static ssize_t end_store(struct engine *engine, const char *buf, size_t count)
{
	(void)buf;
	CHECK(sysfs_remove_file_self(&engine->kobj, &end_attr.attr));
	CHECK(!sysfs_remove_file_self(&engine->kobj, &end_attr.attr));
	return (ssize_t)count;
}

static ssize_t engine_show(struct kobject *kobj, struct attribute *attr, char *buf)
{
	struct engine_attribute *own = container_of(attr, struct engine_attribute, attr);

	return own->show ? own->show(to_engine(kobj), buf) : -EIO;
}

static ssize_t engine_store(struct kobject *kobj, struct attribute *attr, const char *buf, size_t count)
{
	struct engine_attribute *own = container_of(attr, struct engine_attribute, attr);

	return own->store ? own->store(to_engine(kobj), buf, count) : -EIO;
}

static umode_t only_limit(struct kobject *kobj, struct attribute *attr, int index)
{
	(void)kobj;
	(void)index;
	return attr == &limit_attr.attr ? 0444 : 0;
}

static struct attribute *engine_attrs[] = {&limit_attr.attr, &cpus_attr.attr, &slow_attr.attr, &secret_attr.attr, &none_attr.attr, NULL};
ATTRIBUTE_GROUPS(engine);
static const struct attribute_group seen_group = {.name = "seen", .is_visible = only_limit, .attrs = engine_attrs};
static const struct sysfs_ops engine_ops = {.show = engine_show, .store = engine_store};
static const struct kobj_type engine_type = {.release = engine_release, .sysfs_ops = &engine_ops, .default_groups = engine_groups};

static struct engine *make(struct kobject *parent, const char *name)
{
	struct engine *engine = kzalloc(sizeof(*engine), GFP_KERNEL);

	CHECK(engine && kobject_init_and_add(&engine->kobj, &engine_type, parent, "%s", name) == 0);
	return engine;
}

static void reads(const char *path, const char *expected)
{
	char text[128];
	long length = cmwq_sysfs_read(path, text, sizeof(text) - 1);

	CHECK(length >= 0 && length < (long)sizeof(text));
	text[length] = '\0';
	CHECK(strcmp(text, expected) == 0);
}

static long writes(const char *path, const char *text)
{
	return cmwq_sysfs_write(path, text, strlen(text));
}

static void files(void)
{
	struct engine *engine = make(kernel_kobj, "engine");
	char *path = kobject_get_path(&engine->kobj, GFP_KERNEL), text[64];

	CHECK(!strcmp(path, "/kernel/engine") && !strcmp(kobject_name(&engine->kobj), "engine"));
	kfree(path);
	reads("/sys/kernel/engine/limit", "0\n");
	CHECK(writes("/sys/kernel/engine/limit", "12\n") == 3 && engine->limit == 12);
	CHECK(writes("/sys/kernel/engine/limit", "12x") == -EINVAL && writes("/sys/kernel/engine/limit", "99999999999") == -ERANGE);
	CHECK(engine->limit == 12 && cmwq_sysfs_read("/sys/kernel/engine/limit", text, 2) == 3 && !strncmp(text, "12", 2));
	CHECK(writes("/sys/kernel/engine/cpus", "81,0000000f\n") == 12 && cpumask_weight(&engine->cpus) == 6);
	reads("/sys/kernel/engine/cpus", "81,0000000f\n");
	CHECK(writes("/sys/kernel/engine/cpus", "100,00000000") == -EOVERFLOW && writes("/sys/kernel/engine/cpus", "g") == -EINVAL);
	CHECK(cpumask_weight(&engine->cpus) == 6);
	CHECK(cmwq_sysfs_read("/sys/kernel/engine/slow", text, sizeof(text)) == -EACCES);
	CHECK(cmwq_sysfs_read("/sys/kernel/engine/secret", text, sizeof(text)) == -EACCES);
	CHECK(writes("/sys/kernel/engine/secret", "1") == -EACCES && writes("/sys/kernel/engine/none", "1") == -EIO);
	CHECK(writes("/sys/kernel/engine/other", "1") == -ENOENT && writes("/sys/kernel/engine", "1") == -EISDIR);
	CHECK(writes("kernel/engine/limit", "1") == -ENOENT && writes("/sys/kernel/engine/limit/x", "1") == -ENOENT);
	CHECK(cmwq_sysfs_write("/sys/kernel/engine/limit", text, PAGE_SIZE + 1) == -E2BIG);

	/* A group with a folder: what is visible there, and how. */
	CHECK(sysfs_create_group(&engine->kobj, &seen_group) == 0 && sysfs_create_group(&engine->kobj, &seen_group) == -EEXIST);
	reads("/sys/kernel/engine/seen/limit", "12\n");
	CHECK(writes("/sys/kernel/engine/seen/limit", "1") == -EACCES);
	CHECK(cmwq_sysfs_list("/sys/kernel/engine/seen", text, sizeof(text)) == 6 && !strncmp(text, "limit\n", 6));
	sysfs_remove_group(&engine->kobj, &seen_group);
	CHECK(cmwq_sysfs_list("/sys/kernel/engine/seen", text, sizeof(text)) == -ENOENT);

	/* One file more; the name is taken then. */
	CHECK(sysfs_create_file(&engine->kobj, &end_attr.attr) == 0 && sysfs_create_file(&engine->kobj, &end_attr.attr) == -EEXIST);
	CHECK(writes("/sys/kernel/engine/end", "1") == 1 && writes("/sys/kernel/engine/end", "1") == -ENOENT);

	/* By file, as a module does it. */
	{
		struct file *file = filp_open("/sys/kernel/engine/limit", O_RDWR, 0);
		loff_t at = 0;

		CHECK(!IS_ERR(file) && kernel_write(file, "7", 1, &at) == 1 && engine->limit == 7);
		at = 0;
		CHECK(kernel_read(file, text, sizeof(text), &at) == 2 && text[0] == '7' && kernel_read(file, text, sizeof(text), &at) == 0);
		CHECK(PTR_ERR(filp_open("/sys/kernel/engine/slow", O_RDONLY, 0)) == -EACCES);
		CHECK(PTR_ERR(filp_open("/sys/kernel/engine", O_RDONLY, 0)) == -EISDIR);
		kobject_del(&engine->kobj);
		at = 0;
		CHECK(kernel_read(file, text, sizeof(text), &at) == -ENODEV);
		filp_close(file, NULL);
	}
	CHECK(nr_released == 0);
	kobject_put(&engine->kobj);
	CHECK(nr_released == 1);
	CHECK(cmwq_sysfs_list("/sys/kernel", text, sizeof(text)) == 0);
}

static void families(void)
{
	struct kset *set = kset_create_and_add("engines", NULL, kernel_kobj);
	struct engine *a = kzalloc(sizeof(*a), GFP_KERNEL), *b;
	struct kobject *child, *found;

	CHECK(set && a);
	a->kobj.kset = set;
	CHECK(kobject_init_and_add(&a->kobj, &engine_type, NULL, "a/%d", 1) == 0);
	reads("/sys/kernel/engines/a!1/limit", "0\n");
	b = kzalloc(sizeof(*b), GFP_KERNEL);
	b->kobj.kset = set;
	CHECK(kobject_init_and_add(&b->kobj, &engine_type, NULL, "a!1") == -EEXIST);
	nr_released = 0;
	kobject_put(&b->kobj);
	CHECK(nr_released == 1);
	found = kset_find_obj(set, "a!1");
	CHECK(found == &a->kobj && !kset_find_obj(set, "b") && kref_read(&a->kobj.kref) == 2);
	kobject_put(found);

	/* A child keeps its parent; its files go by themselves with its last reference. */
	child = kobject_create_and_add("child", &a->kobj);
	CHECK(child && kref_read(&a->kobj.kref) == 2 && kobject_create_and_add("child", &a->kobj) == NULL);
	kobject_put(&a->kobj);
	reads("/sys/kernel/engines/a!1/limit", "0\n");
	kobject_put(child);
	CHECK(nr_released == 2 && !kset_find_obj(set, "a!1"));
	kset_unregister(set);
	kobject_put(NULL);
}

static int store_slowly(void *arg)
{
	(void)arg;
	return writes("/sys/kernel/engine/slow", "1") == 1 ? 0 : 1;
}

static int removed;

static int remove_it(void *arg)
{
	kobject_del(&((struct engine *)arg)->kobj);
	__atomic_store_n(&removed, 1, __ATOMIC_SEQ_CST);
	return 0;
}

#ifdef __GLIBC__
static ssize_t exits_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	(void)kobj;
	(void)attr;
	(void)buf;
	pthread_exit(NULL);
}

static ssize_t exits_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf, size_t count)
{
	(void)count;
	return exits_show(kobj, attr, (char *)(uintptr_t)buf);
}

static struct kobj_attribute exits_attr = __ATTR_RW(exits);

static void *reads_and_ends(void *stores)
{
	char text[8];

	if (stores)
		CHECK(!cmwq_sysfs_write("/sys/kernel/ends/exits", "1", 1));
	else
		CHECK(!cmwq_sysfs_read("/sys/kernel/ends/exits", text, sizeof(text)));
	return NULL;
}

static void *removes(void *kobj)
{
	sysfs_remove_file((struct kobject *)kobj, &exits_attr.attr);
	__atomic_store_n(&removed, 2, __ATOMIC_SEQ_CST);
	return NULL;
}

/* Show and store that end their thread: the file is not in use any more. */
static void use_ends_with_its_thread(void)
{
	struct kobject *kobj = kobject_create_and_add("ends", kernel_kobj);
	pthread_t thread;
	int i;

	CHECK(kobj && sysfs_create_file(kobj, &exits_attr.attr) == 0);
	for (i = 0; i < 2; i++) {
		CHECK(!pthread_create(&thread, NULL, reads_and_ends, i ? kobj : NULL));
		pthread_join(thread, NULL);
	}
	CHECK(!pthread_create(&thread, NULL, removes, kobj));
	CHECK_SOON(__atomic_load_n(&removed, __ATOMIC_SEQ_CST) == 2);
	pthread_join(thread, NULL);
	kobject_put(kobj);
}
#else
static void use_ends_with_its_thread(void)
{
}
#endif

/* A thread that takes a file away waits for the store that runs in it. */
static void removal_waits(void)
{
	struct engine *engine = make(kernel_kobj, "engine");
	struct task_struct *storer, *remover;

	init_completion(&begun);
	init_completion(&go_on);
	storer = kthread_run(store_slowly, NULL, "storer");
	CHECK(!IS_ERR(storer));
	wait_for_completion(&begun);
	remover = kthread_run(remove_it, engine, "remover");
	CHECK(!IS_ERR(remover));
	/* It has taken the file out, and waits. */
	CHECK_SOON(cmwq_sysfs_access("/sys/kernel/engine/slow", 0222) == -ENOENT);
	CHECK(!__atomic_load_n(&removed, __ATOMIC_SEQ_CST) && engine->limit == 0);
	complete(&go_on);
	CHECK_SOON(__atomic_load_n(&removed, __ATOMIC_SEQ_CST));
	CHECK(engine->limit == -1);
	CHECK(kthread_stop(storer) == 0 && kthread_stop(remover) == 0);
	kobject_put(&engine->kobj);
}

static ssize_t state_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	(void)attr;
	return sysfs_emit(buf, "%s\n", (const char *)dev_get_drvdata(dev));
}
static DEVICE_ATTR_RO(state);
static struct attribute *dev_attrs[] = {&dev_attr_state.attr, NULL};
ATTRIBUTE_GROUPS(dev);

static struct work_struct *last_run;

static void run(struct work_struct *work)
{
	last_run = work;
}

static void note(void *data)
{
	*(int *)data += 1;
}

static void devices(void)
{
	struct device *root = root_device_register("toys"), *dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	struct workqueue_struct *wq;
	struct work_struct work;
	int noted = 0, kept = 0;

	CHECK(!IS_ERR(root) && dev && IS_ERR(root_device_register("toys")));
	device_initialize(dev);
	dev->parent = root;
	dev->groups = dev_groups;
	dev->release = cmwq_root_device_free;
	dev_set_drvdata(dev, (void *)"ready");
	CHECK(device_add(dev) == -EINVAL && dev_set_name(dev, "toy%d", 3) == 0 && device_add(dev) == 0);
	CHECK(!strcmp(dev_name(dev), "toy3"));
	reads("/sys/devices/toys/toy3/state", "ready\n");

	/* What the device has taken goes with it, the last first. */
	CHECK(devm_add_action(dev, note, &noted) == 0 && devm_add_action(dev, note, &kept) == 0);
	CHECK(devm_kzalloc(dev, 100, GFP_KERNEL));
	devm_kfree(dev, devm_kzalloc(dev, 10, GFP_KERNEL));
	devm_remove_action(dev, note, &kept);
	wq = devm_alloc_workqueue(dev, "toy/%d", WQ_UNBOUND, 0, 3);
	INIT_WORK(&work, run);
	CHECK(wq && queue_work(wq, &work));
	device_unregister(dev);
	CHECK(last_run == &work && noted == 1 && kept == 0);

	/* One that was never added has no reference of its parent. */
	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	CHECK(dev && kref_read(&root->kobj.kref) == 1);
	dev->parent = root;
	dev->release = cmwq_root_device_free;
	CHECK(device_register(dev) == -EINVAL);
	put_device(dev);
	CHECK(kref_read(&root->kobj.kref) == 1);
	root_device_unregister(root);
}

static void texts(void)
{
	unsigned long bits[2] = {0xf0000000000000fful, 5};
	char text[80], *made;
	bool yes = false;
	u8 small = 0;
	s64 wide = 0;
	u64 big = 0;

	CHECK(snprintf(text, sizeof(text), "%d %*pb|%s", 1, 67, (void *)bits, "x") == 23 && !strcmp(text, "1 5,f0000000,000000ff|x"));
	CHECK(snprintf(text, sizeof(text), "%5.1f %*pbl %-4llu|%%", 2.5, 67, (void *)bits, 7ull) == 25);
	CHECK(!strcmp(text, "  2.5 0-7,60-64,66 7   |%"));
	/* Cut: the length is that of the whole. */
	CHECK(snprintf(text, 8, "%*pb", 67, (void *)bits) == 19 && !strcmp(text, "5,f0000") && snprintf(NULL, 0, "%*pbl!", 67, (void *)bits) == 13);
	CHECK(scnprintf(text, 8, "%*pb", 67, (void *)bits) == 7 && scnprintf(text, 0, "x") == 0 && snprintf(text, sizeof(text), "%s", "pb") == 2);
	made = kasprintf(GFP_KERNEL, "%s-%*pbl", "of", 8, (void *)bits);
	CHECK(made && !strcmp(made, "of-0-7"));
	kfree(made);
	CHECK(cmwq_bits_parse_list(" 1-3,66,8-15:1/4\n", bits, 67) == 0 && bits[0] == 0x110e && bits[1] == 4);
	CHECK(cmwq_bits_parse_list("all", bits, 67) == 0 && bits[0] == ~0ul && bits[1] == 7 && cmwq_bits_parse_list("N", bits, 67) == 0 && bits[1] == 4);
	CHECK(cmwq_bits_parse_list("67", bits, 67) == -ERANGE && cmwq_bits_parse_list("3-1", bits, 67) == -EINVAL);
	CHECK(cmwq_bits_parse_list("1-", bits, 67) == -EINVAL && cmwq_bits_parse_list("1x", bits, 67) == -EINVAL);
	bits[0] = 9;
	CHECK(cmwq_bits_parse_mask("", 0, bits, 67) == -EINVAL && cmwq_bits_parse_mask(",1", 2, bits, 67) == -EINVAL);
	CHECK(cmwq_bits_parse_mask("1,", 2, bits, 67) == -EINVAL && cmwq_bits_parse_mask("8,0,0", 5, bits, 67) == -EOVERFLOW);
	CHECK(cmwq_bits_parse_mask("123456789", 9, bits, 67) == -EOVERFLOW && bits[0] == 9);
	CHECK(cmwq_bits_parse_mask(" 4,0,F\n", 7, bits, 67) == 0 && bits[0] == 15 && bits[1] == 4);

	CHECK(kstrtou8("255\n", 10, &small) == 0 && small == 255 && kstrtou8("256", 10, &small) == -ERANGE && small == 255);
	CHECK(kstrtou8("-1", 0, &small) == -EINVAL && kstrtou8(" 1", 0, &small) == -EINVAL && kstrtou8("1\n\n", 0, &small) == -EINVAL);
	CHECK(kstrtos64("-9223372036854775808", 0, &wide) == 0 && wide == LLONG_MIN && kstrtos64("9223372036854775808", 0, &wide) == -ERANGE);
	CHECK(kstrtos64("-+1", 0, &wide) == -EINVAL && kstrtos64("+0x10", 0, &wide) == 0 && wide == 16 && kstrtos64("-", 0, &wide) == -EINVAL);
	CHECK(kstrtou64("18446744073709551615", 0, &big) == 0 && big == ULLONG_MAX && kstrtou64("18446744073709551616", 0, &big) == -ERANGE);
	CHECK(kstrtobool("on", &yes) == 0 && yes && kstrtobool("OFF", &yes) == 0 && !yes && kstrtobool("o", &yes) == -EINVAL);
	CHECK(kstrtobool("", &yes) == -EINVAL && kstrtobool(NULL, &yes) == -EINVAL && kstrtobool("Y", &yes) == 0 && yes);
	CHECK(strscpy(text, "abc", sizeof(text)) == 3 && strscpy(text, "abc", 3) == -E2BIG && !strcmp(text, "ab") && strscpy(text, "abc") == 3);
	strscpy(text, "  word \n");
	CHECK(!strcmp(strim(text), "word") && sysfs_streq("cpu\n", "cpu") && !sysfs_streq("cpu", "cpus") && !sysfs_streq("cpu\n\n", "cpu"));
}

int main(void)
{
	files();
	families();
	removal_waits();
	use_ends_with_its_thread();
	devices();
	texts();
	return 0;
}
