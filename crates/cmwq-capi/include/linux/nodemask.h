/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: sets of NUMA nodes, and
 * those that the machine has, as the system told when they were first asked for; where it tells
 * nothing, node 0. A program that brings its own defines CMWQ_NO_NODEMASK.
 */
#ifndef CMWQ_LINUX_NODEMASK_H
#define CMWQ_LINUX_NODEMASK_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_NODEMASK
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/nodemask.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_NODEMASK

#include <linux/cmwq_bitmap_text.h>
#include <linux/numa.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

enum { CMWQ_NODE_WORDS = MAX_NUMNODES / 64 };

typedef struct {
	unsigned long bits[CMWQ_NODE_WORDS];
} nodemask_t;

enum node_states {
	N_POSSIBLE,
	N_ONLINE,
	N_NORMAL_MEMORY,
	N_HIGH_MEMORY = N_NORMAL_MEMORY,
	N_MEMORY,
	N_CPU,
	NR_NODE_STATES
};

/* The node of each CPU; -1: it is not known. */
struct cmwq_nodes {
	pthread_mutex_t lock;
	bool asked;
	nodemask_t states[NR_NODE_STATES];
	short of_cpu[CMWQ_MAX_CPUS];
};

#ifdef __cplusplus
extern "C" {
#endif
__attribute__((__weak__)) struct cmwq_nodes cmwq_nodes;
#ifdef __cplusplus
}
#endif

#define node_set(node, mask) cmwq_bits_set((mask).bits, (size_t)(node))
#define node_clear(node, mask) ((void)((mask).bits[(node) / 64] &= ~(1UL << (node) % 64)))
#define node_isset(node, mask) cmwq_bits_test((mask).bits, (size_t)(node))
#define nodes_clear(mask) cmwq_bits_zero((mask).bits, MAX_NUMNODES)

/* The next one after `node` (-1: the first); MAX_NUMNODES: there is none. */
static inline int cmwq_next_node(int node, const nodemask_t *mask)
{
	for (node++; node < MAX_NUMNODES; node++)
		if (cmwq_bits_test(mask->bits, (size_t)node))
			break;
	return node;
}

static inline int cmwq_next_node_in(int node, const nodemask_t *mask)
{
	int next = cmwq_next_node(node, mask);

	return next < MAX_NUMNODES ? next : cmwq_next_node(-1, mask);
}

static inline int cmwq_nodes_weight(const nodemask_t *mask)
{
	int i, weight = 0;

	for (i = 0; i < CMWQ_NODE_WORDS; i++)
		weight += __builtin_popcountl(mask->bits[i]);
	return weight;
}

#define first_node(mask) cmwq_next_node(-1, &(mask))
#define next_node(node, mask) cmwq_next_node((node), &(mask))
/* After the last comes the first. */
#define next_node_in(node, mask) cmwq_next_node_in((node), &(mask))
#define nodes_weight(mask) cmwq_nodes_weight(&(mask))
#define nodes_empty(mask) (nodes_weight(mask) == 0)
#define for_each_node_mask(node, mask) \
	for ((node) = first_node(mask); (node) < MAX_NUMNODES; (node) = next_node((node), (mask)))

/* A file of a node, or of all, as a set; false: there is none. */
static inline bool cmwq_node_file(const char *name, unsigned long *bits, size_t nbits)
{
	char path[128], text[4096];
	FILE *file;
	bool read;

	snprintf(path, sizeof(path), "/sys/devices/system/node/%s", name);
	file = fopen(path, "r");
	if (!file)
		return false;
	read = fgets(text, sizeof(text), file) != NULL &&
		cmwq_bits_parse_list(text, bits, nbits) == 0;
	fclose(file);
	return read;
}

static inline void cmwq_ask_nodes(struct cmwq_nodes *nodes)
{
	static const char *const files[NR_NODE_STATES] = {"possible", "online", "has_normal_memory",
		"has_memory", "has_cpu"};
	unsigned long cpus[CMWQ_MAX_CPUS / 64];
	int state, node, cpu;

	for (state = 0; state < NR_NODE_STATES; state++)
		if (!cmwq_node_file(files[state], nodes->states[state].bits, MAX_NUMNODES) ||
			nodes_empty(nodes->states[state]))
			node_set(0, nodes->states[state]);
	for (cpu = 0; cpu < CMWQ_MAX_CPUS; cpu++)
		nodes->of_cpu[cpu] = -1;
	for_each_node_mask(node, nodes->states[N_ONLINE]) {
		char name[64];

		snprintf(name, sizeof(name), "node%d/cpulist", node);
		if (!cmwq_node_file(name, cpus, CMWQ_MAX_CPUS))
			continue;
		for (cpu = 0; cpu < CMWQ_MAX_CPUS; cpu++)
			if (cmwq_bits_test(cpus, (size_t)cpu))
				nodes->of_cpu[cpu] = (short)node;
	}
}

static inline struct cmwq_nodes *cmwq_nodes_now(void)
{
	pthread_mutex_lock(&cmwq_nodes.lock);
	if (!cmwq_nodes.asked)
		cmwq_ask_nodes(&cmwq_nodes);
	cmwq_nodes.asked = true;
	pthread_mutex_unlock(&cmwq_nodes.lock);
	return &cmwq_nodes;
}

#define node_states (cmwq_nodes_now()->states)
#define node_possible_map (node_states[N_POSSIBLE])
#define node_online_map (node_states[N_ONLINE])
#define node_state(node, state) node_isset((node), node_states[state])
#define num_node_state(state) nodes_weight(node_states[state])
#define num_online_nodes() num_node_state(N_ONLINE)
#define num_possible_nodes() num_node_state(N_POSSIBLE)
#define node_online(node) node_state((node), N_ONLINE)
#define nr_node_ids ((unsigned int)cmwq_nr_node_ids())
#define for_each_node_state(node, state) for_each_node_mask((node), node_states[state])
#define for_each_node(node) for_each_node_state((node), N_POSSIBLE)
#define for_each_online_node(node) for_each_node_state((node), N_ONLINE)

static inline int cmwq_nr_node_ids(void)
{
	int node, last = 0;

	for_each_node(node)
		last = node;
	return last + 1;
}

#endif
#endif
