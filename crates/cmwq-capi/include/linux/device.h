/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: devices, as far as an
 * object with attribute files and with what it has taken is one. There are no buses, classes and
 * drivers. What devm_ functions gave is given back with the last reference, in reverse order. A
 * program that brings its own defines CMWQ_NO_KOBJECT.
 */
#ifndef CMWQ_LINUX_DEVICE_H
#define CMWQ_LINUX_DEVICE_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KOBJECT
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/device.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_KOBJECT

#include <linux/cmwq_format.h>
#include <linux/kobject.h>
#include <linux/printk.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

struct device;

struct device_type {
	const char *name;
	const struct attribute_group **groups;
	void (*release)(struct device *dev);
};

/* What a device has taken: `data` lies behind it. */
struct cmwq_devres {
	struct cmwq_devres *next;
	void (*action)(void *data);
	void *data;
};

struct device {
	struct kobject kobj;
	struct device *parent;
	const char *init_name;
	const struct device_type *type;
	const struct attribute_group **groups;
	void (*release)(struct device *dev);
	void *platform_data;
	void *driver_data;
	pthread_mutex_t cmwq_lock;
	struct cmwq_devres *cmwq_taken;
	/* The parent once it was added: it has a reference of it to its end. */
	struct device *cmwq_parent;
};

struct device_attribute {
	struct attribute attr;
	ssize_t (*show)(struct device *dev, struct device_attribute *attr, char *buf);
	ssize_t (*store)(struct device *dev, struct device_attribute *attr, const char *buf,
		size_t count);
};

#define DEVICE_ATTR(_name, _mode, _show, _store) \
	struct device_attribute dev_attr_##_name = __ATTR(_name, _mode, _show, _store)
#define DEVICE_ATTR_RW(_name) struct device_attribute dev_attr_##_name = __ATTR_RW(_name)
#define DEVICE_ATTR_RO(_name) struct device_attribute dev_attr_##_name = __ATTR_RO(_name)
#define DEVICE_ATTR_WO(_name) struct device_attribute dev_attr_##_name = __ATTR_WO(_name)

static inline struct device *kobj_to_dev(struct kobject *kobj)
{
	return container_of(kobj, struct device, kobj);
}

static inline ssize_t cmwq_dev_attr_show(struct kobject *kobj, struct attribute *attr, char *buf)
{
	struct device_attribute *own = container_of(attr, struct device_attribute, attr);

	return own->show ? own->show(kobj_to_dev(kobj), own, buf) : -EIO;
}

static inline ssize_t cmwq_dev_attr_store(struct kobject *kobj, struct attribute *attr,
	const char *buf, size_t count)
{
	struct device_attribute *own = container_of(attr, struct device_attribute, attr);

	return own->store ? own->store(kobj_to_dev(kobj), own, buf, count) : -EIO;
}

static inline void cmwq_devres_release_all(struct device *dev)
{
	struct cmwq_devres *taken;

	for (;;) {
		pthread_mutex_lock(&dev->cmwq_lock);
		taken = dev->cmwq_taken;
		if (taken)
			dev->cmwq_taken = taken->next;
		pthread_mutex_unlock(&dev->cmwq_lock);
		if (!taken)
			return;
		taken->action(taken->data);
		free(taken);
	}
}

static inline void cmwq_device_release(struct kobject *kobj)
{
	struct device *dev = kobj_to_dev(kobj);
	struct device *parent = dev->cmwq_parent;

	cmwq_devres_release_all(dev);
	if (dev->release)
		dev->release(dev);
	else if (dev->type && dev->type->release)
		dev->type->release(dev);
	else
		fprintf(stderr, "device %s: it has no release function\n", kobj->name);
	if (parent)
		kobject_put(&parent->kobj);
}

static const struct sysfs_ops cmwq_dev_sysfs_ops
	__attribute__((__unused__)) = {cmwq_dev_attr_show, cmwq_dev_attr_store};
static const struct kobj_type cmwq_device_ktype
	__attribute__((__unused__)) = {cmwq_device_release, &cmwq_dev_sysfs_ops, NULL};

static inline const char *dev_name(const struct device *dev)
{
	return dev->init_name ? dev->init_name : kobject_name(&dev->kobj);
}

#define dev_set_name(dev, ...) kobject_set_name(&(dev)->kobj, __VA_ARGS__)

static inline void *dev_get_drvdata(const struct device *dev)
{
	return dev->driver_data;
}

static inline void dev_set_drvdata(struct device *dev, void *data)
{
	dev->driver_data = data;
}

static inline struct device *get_device(struct device *dev)
{
	if (dev)
		kobject_get(&dev->kobj);
	return dev;
}

static inline void put_device(struct device *dev)
{
	if (dev)
		kobject_put(&dev->kobj);
}

/* The memory was zeros before, but for what the caller has set. */
static inline void device_initialize(struct device *dev)
{
	kobject_init(&dev->kobj, &cmwq_device_ktype);
	pthread_mutex_init(&dev->cmwq_lock, NULL);
	dev->cmwq_parent = NULL;
}

static inline int device_create_file(struct device *dev, const struct device_attribute *attr)
{
	return sysfs_create_file(&dev->kobj, &attr->attr);
}

static inline void device_remove_file(struct device *dev, const struct device_attribute *attr)
{
	sysfs_remove_file(&dev->kobj, &attr->attr);
}

#define device_add_groups(dev, groups) sysfs_create_groups(&(dev)->kobj, (groups))
#define device_remove_groups(dev, groups) sysfs_remove_groups(&(dev)->kobj, (groups))

/* Below its parent, or in /sys/devices. -EINVAL: it has no name. */
static inline CMWQ_MUST_CHECK int device_add(struct device *dev)
{
	int failed = 0;

	if (dev->init_name)
		failed = dev_set_name(dev, "%s", dev->init_name);
	dev->init_name = NULL;
	if (failed || !dev->kobj.name)
		return failed ? failed : -EINVAL;
	dev->kobj.parent = dev->parent ? &dev->parent->kobj : cmwq_base_kobj(CMWQ_KOBJ_DEVICES);
	failed = cmwq_kobject_enter(&dev->kobj);
	if (failed)
		return failed;
	failed = sysfs_create_groups(&dev->kobj, dev->type ? dev->type->groups : NULL);
	if (!failed)
		failed = sysfs_create_groups(&dev->kobj, dev->groups);
	if (failed)
		kobject_del(&dev->kobj);
	else if (!dev->cmwq_parent)
		dev->cmwq_parent = get_device(dev->parent);
	return failed;
}

/* After an error the caller calls put_device(). */
static inline CMWQ_MUST_CHECK int device_register(struct device *dev)
{
	device_initialize(dev);
	return device_add(dev);
}

static inline void device_del(struct device *dev)
{
	kobject_del(&dev->kobj);
}

static inline void device_unregister(struct device *dev)
{
	device_del(dev);
	put_device(dev);
}

static inline void cmwq_root_device_free(struct device *dev)
{
	free(dev);
}

/* An error number in a pointer. */
static inline CMWQ_MUST_CHECK struct device *root_device_register(const char *name)
{
	struct device *dev = (struct device *)calloc(1, sizeof(*dev));
	int failed;

	if (!dev)
		return (struct device *)ERR_PTR(-ENOMEM);
	dev->init_name = name;
	dev->release = cmwq_root_device_free;
	failed = device_register(dev);
	if (failed) {
		put_device(dev);
		return (struct device *)ERR_PTR(failed);
	}
	return dev;
}

static inline void root_device_unregister(struct device *dev)
{
	device_unregister(dev);
}

#define CMWQ_DEV_ONE(dev, fmt) "%s: " fmt, dev_name(dev)
#define CMWQ_DEV_MANY(dev, fmt, ...) "%s: " fmt, dev_name(dev), __VA_ARGS__
#define CMWQ_DEV(dev, ...) CMWQ_BY_COUNT(CMWQ_DEV_, __VA_ARGS__)(dev, __VA_ARGS__)
#define dev_emerg(dev, ...) pr_emerg(CMWQ_DEV(dev, __VA_ARGS__))
#define dev_alert(dev, ...) pr_alert(CMWQ_DEV(dev, __VA_ARGS__))
#define dev_crit(dev, ...) pr_crit(CMWQ_DEV(dev, __VA_ARGS__))
#define dev_err(dev, ...) pr_err(CMWQ_DEV(dev, __VA_ARGS__))
#define dev_warn(dev, ...) pr_warn(CMWQ_DEV(dev, __VA_ARGS__))
#define dev_notice(dev, ...) pr_notice(CMWQ_DEV(dev, __VA_ARGS__))
#define dev_info(dev, ...) pr_info(CMWQ_DEV(dev, __VA_ARGS__))
#define dev_dbg(dev, ...) pr_debug(CMWQ_DEV(dev, __VA_ARGS__))

/* ---- what goes with the device ---- */

/* Calls `action(data)` when the device goes. -ENOMEM: it will not be called. */
static inline CMWQ_MUST_CHECK int devm_add_action(struct device *dev, void (*action)(void *data),
	void *data)
{
	struct cmwq_devres *taken = (struct cmwq_devres *)malloc(sizeof(*taken));

	if (!taken)
		return -ENOMEM;
	taken->action = action;
	taken->data = data;
	pthread_mutex_lock(&dev->cmwq_lock);
	taken->next = dev->cmwq_taken;
	dev->cmwq_taken = taken;
	pthread_mutex_unlock(&dev->cmwq_lock);
	return 0;
}

static inline CMWQ_MUST_CHECK int devm_add_action_or_reset(struct device *dev,
	void (*action)(void *data), void *data)
{
	int failed = devm_add_action(dev, action, data);

	if (failed)
		action(data);
	return failed;
}

/* The action is not called for this data any more. */
static inline void devm_remove_action(struct device *dev, void (*action)(void *data), void *data)
{
	struct cmwq_devres **at, *taken;

	pthread_mutex_lock(&dev->cmwq_lock);
	for (at = &dev->cmwq_taken; *at && ((*at)->action != action || (*at)->data != data);
		at = &(*at)->next)
		;
	taken = *at;
	if (taken)
		*at = taken->next;
	pthread_mutex_unlock(&dev->cmwq_lock);
	WARN_ON(!taken);
	free(taken);
}

static inline CMWQ_MUST_CHECK void *devm_kmalloc(struct device *dev, size_t size,
	unsigned int flags)
{
	void *memory = kmalloc(size, flags);

	return memory && devm_add_action_or_reset(dev, free, memory) ? NULL : memory;
}

#define devm_kzalloc(dev, size, flags) devm_kmalloc((dev), (size), (flags) | __GFP_ZERO)

static inline void devm_kfree(struct device *dev, const void *memory)
{
	devm_remove_action(dev, free, (void *)(uintptr_t)memory);
	kfree(memory);
}

static inline void cmwq_devm_destroy_workqueue(void *wq)
{
	destroy_workqueue((struct workqueue_struct *)wq);
}

static inline CMWQ_MUST_CHECK struct workqueue_struct *cmwq_devm_workqueue(struct device *dev,
	struct workqueue_struct *wq)
{
	return wq && devm_add_action_or_reset(dev, cmwq_devm_destroy_workqueue, wq) ? NULL : wq;
}

/* Destroyed when the device goes. */
#define devm_alloc_workqueue(dev, ...) cmwq_devm_workqueue((dev), alloc_workqueue(__VA_ARGS__))
#define devm_alloc_ordered_workqueue(dev, ...) \
	cmwq_devm_workqueue((dev), alloc_ordered_workqueue(__VA_ARGS__))

#define devm_kcalloc(dev, n, size, flags) \
	devm_kmalloc((dev), size_mul((n), (size)), (flags) | __GFP_ZERO)
#define devm_kmalloc_array(dev, n, size, flags) devm_kmalloc((dev), size_mul((n), (size)), (flags))

static inline CMWQ_MUST_CHECK char *devm_kstrdup(struct device *dev, const char *from,
	unsigned int flags)
{
	char *to = kstrdup(from, flags);

	return to && devm_add_action_or_reset(dev, free, to) ? NULL : to;
}

/* The error, for `return dev_err_probe(...)`. */
#define CMWQ_PROBE_ONE(error, fmt) "error %d: " fmt, error
#define CMWQ_PROBE_MANY(error, fmt, ...) "error %d: " fmt, error, __VA_ARGS__
#define dev_err_probe(dev, error, ...)                                                            \
	__extension__({                                                                           \
		int cmwq_error = (int)(error);                                                    \
		dev_err((dev), CMWQ_BY_COUNT(CMWQ_PROBE_, __VA_ARGS__)(cmwq_error, __VA_ARGS__)); \
		cmwq_error;                                                                       \
	})

#endif
#endif
