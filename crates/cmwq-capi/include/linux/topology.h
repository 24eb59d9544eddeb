/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: the NUMA node of a CPU,
 * and the CPUs of a node. A program that brings its own defines CMWQ_NO_NODEMASK.
 */
#ifndef CMWQ_LINUX_TOPOLOGY_H
#define CMWQ_LINUX_TOPOLOGY_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_NODEMASK
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/topology.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_NODEMASK

#include <linux/cpumask.h>
#include <linux/nodemask.h>

/* Returns node 0 if the system says nothing about the CPU. */
static inline int cpu_to_node(int cpu)
{
	int node = cpu >= 0 && cpu < CMWQ_MAX_CPUS ? cmwq_nodes_now()->of_cpu[cpu] : -1;

	return node < 0 ? 0 : node;
}

/* A hint: the thread may move at any time. */
static inline int numa_node_id(void)
{
	return cpu_to_node(cmwq_current_cpu());
}

#define numa_mem_id() numa_node_id()
#define cpu_to_mem(cpu) cpu_to_node(cpu)

#ifndef CMWQ_NO_CPUMASK
/* The answer is in memory of the calling thread. NUMA_NO_NODE: all CPUs. */
static inline const struct cpumask *cpumask_of_node(int node)
{
	static __thread struct cpumask mask;
	int cpu;

	if (node == NUMA_NO_NODE)
		return cpu_possible_mask;
	cpumask_clear(&mask);
	for_each_possible_cpu(cpu)
		if (cpu_to_node(cpu) == node)
			cpumask_set_cpu((unsigned int)cpu, &mask);
	return &mask;
}

/*
 * The i-th of the CPUs that are online, those of the node before the others; after the last comes
 * the first.
 */
static inline unsigned int cpumask_local_spread(unsigned int i, int node)
{
	const struct cpumask *online = cpu_online_mask;
	struct cpumask near, far;

	cpumask_and(&near, online, cpumask_of_node(node));
	cpumask_andnot(&far, online, &near);
	i %= cpumask_weight(online);
	return i < cpumask_weight(&near) ? cpumask_nth(i, &near)
					 : cpumask_nth(i - cpumask_weight(&near), &far);
}
#endif

#endif
#endif
