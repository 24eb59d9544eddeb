/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An ordered log: any thread appends lines, one at a time is written, in the order in which they were queued. Each line is an
 * item on the heap that its own function frees.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <linux/workqueue.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct line {
	struct work_struct work;
	int writer, number;
};

enum { WRITERS = 4, LINES = 500 };

static FILE *out;
static struct workqueue_struct *log_wq;

static void write_line(struct work_struct *work)
{
	struct line *line = container_of(work, struct line, work);

	fprintf(out, "%d %d\n", line->writer, line->number);
	free(line);
}

static void *writer(void *arg)
{
	int number;

	for (number = 0; number < LINES; number++) {
		struct line *line = (struct line *)malloc(sizeof(*line));

		if (!line)
			return arg;
		line->writer = *(int *)arg;
		line->number = number;
		INIT_WORK(&line->work, write_line);
		queue_work(log_wq, &line->work);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[WRITERS];
	int names[WRITERS], next[WRITERS] = {0}, i, who, number, lines = 0;
	char *text = NULL;
	size_t size = 0;
	const char *at;

	out = open_memstream(&text, &size);
	log_wq = alloc_ordered_workqueue("log", 0);
	if (!out || !log_wq)
		return 1;
	for (i = 0; i < WRITERS; i++) {
		names[i] = i;
		if (pthread_create(&threads[i], NULL, writer, &names[i]))
			return 1;
	}
	for (i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	destroy_workqueue(log_wq);
	fclose(out);
	/* Every writer's lines are there, in its order. */
	for (at = text; at && *at; at = strchr(at, '\n') + 1, lines++) {
		if (sscanf(at, "%d %d", &who, &number) != 2 || number != next[who]++) {
			fprintf(stderr, "line %d is out of order\n", lines);
			return 1;
		}
	}
	printf("%d lines in order\n", lines);
	free(text);
	return lines == WRITERS * LINES ? 0 : 1;
}
