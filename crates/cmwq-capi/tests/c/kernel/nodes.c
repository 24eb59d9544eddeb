/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* NUMA nodes: sets of them, those of the machine, and items that run on one. Seen to fail with: next_node() that begins at the node itself. */
#include <linux/nodemask.h>
#include <linux/topology.h>
#include <linux/workqueue.h>

#include "check.h"

static int ran_on;

static void run(struct work_struct *work)
{
	(void)work;
	ran_on = cmwq_current_cpu();
}

int main(void)
{
	struct workqueue_struct *wq = alloc_workqueue("nodes", WQ_UNBOUND, 0);
	unsigned int cpus = 0;
	nodemask_t mask;
	int node, cpu, count = 0;

	nodes_clear(mask);
	CHECK(nodes_empty(mask) && first_node(mask) == MAX_NUMNODES);
	node_set(3, mask);
	node_set(70, mask);
	node_set(1023, mask);
	CHECK(nodes_weight(mask) == 3 && first_node(mask) == 3 && next_node(3, mask) == 70 && next_node(1023, mask) == MAX_NUMNODES);
	CHECK(next_node_in(1023, mask) == 3 && next_node_in(3, mask) == 70);
	node_clear(70, mask);
	for_each_node_mask(node, mask)
		count += node;
	CHECK(count == 1026 && node_isset(3, mask) && !node_isset(70, mask));

	CHECK(wq && num_online_nodes() >= 1 && num_node_state(N_CPU) >= 1 && num_possible_nodes() >= num_online_nodes());
	CHECK(node_online(first_node(node_states[N_CPU])) && nr_node_ids >= (unsigned int)num_online_nodes());
	for_each_node(node)
		cpus += cpumask_weight(cpumask_of_node(node));
	CHECK(cpus == num_possible_cpus() && cpumask_equal(cpumask_of_node(NUMA_NO_NODE), cpu_possible_mask));
	for_each_online_cpu(cpu)
		CHECK(cpumask_test_cpu((unsigned int)cpu, cpumask_of_node(cpu_to_node(cpu))) && node_state(cpu_to_node(cpu), N_CPU));
	CHECK(node_online(numa_node_id()) && cpu_to_node(-1) == 0);
	for_each_node_state(node, N_CPU) {
		struct work_struct work;

		if (!cpumask_intersects(cpumask_of_node(node), cpu_online_mask))
			continue;
		INIT_WORK_ONSTACK(&work, run);
		CHECK(queue_work_node(node, wq, &work));
		flush_work(&work);
		/* Not strict: of a node alone it is certain. */
		CHECK(num_node_state(N_CPU) > 1 || cpu_to_node(ran_on) == node);
		destroy_work_on_stack(&work);
	}
	destroy_workqueue(wq);
	return 0;
}
