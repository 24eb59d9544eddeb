/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From a hand-made pthread pool: the same jobs on a list with a mutex and a condition variable, and on a workqueue. See docs/adopting.md.
 */
#include <cmwq.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { JOBS = 5000, THREADS = 4 };

/* What a job does. */
static uint64_t digest(uint64_t hash)
{
	for (int i = 0; i < 2000; i++)
		hash = hash * 6364136223846793005u + 1442695040888963407u;
	return hash;
}

/* ---- before: a pool of threads ---- */

struct pool_job {
	struct pool_job *next;
	uint64_t number, result;
};

static struct pool {
	pthread_mutex_t lock;
	pthread_cond_t work, idle;
	struct pool_job *first, **last;
	int busy, stop;
} pool = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, &pool.first, 0, 0};

static void *pool_thread(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&pool.lock);
	for (;;) {
		struct pool_job *job = pool.first;
		if (job) {
			pool.first = job->next;
			if (!pool.first)
				pool.last = &pool.first;
			pool.busy++;
			pthread_mutex_unlock(&pool.lock);
			job->result = digest(job->number);
			pthread_mutex_lock(&pool.lock);
			if (--pool.busy == 0 && !pool.first)
				pthread_cond_broadcast(&pool.idle);
		} else if (pool.stop) {
			break;
		} else {
			pthread_cond_wait(&pool.work, &pool.lock);
		}
	}
	pthread_mutex_unlock(&pool.lock);
	return NULL;
}

static void pool_submit(struct pool_job *job)
{
	job->next = NULL;
	pthread_mutex_lock(&pool.lock);
	*pool.last = job;
	pool.last = &job->next;
	pthread_cond_signal(&pool.work);
	pthread_mutex_unlock(&pool.lock);
}

static uint64_t with_pthreads(void)
{
	struct pool_job *jobs = (struct pool_job *)calloc(JOBS, sizeof(*jobs));
	pthread_t threads[THREADS];
	uint64_t sum = 0;

	if (!jobs)
		exit(1);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, pool_thread, NULL))
			exit(1);
	for (int i = 0; i < JOBS; i++) {
		jobs[i].number = (uint64_t)i;
		pool_submit(&jobs[i]);
	}
	pthread_mutex_lock(&pool.lock);
	while (pool.first || pool.busy)
		pthread_cond_wait(&pool.idle, &pool.lock);
	pool.stop = 1;
	pthread_cond_broadcast(&pool.work);
	pthread_mutex_unlock(&pool.lock);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < JOBS; i++)
		sum += jobs[i].result;
	free(jobs);
	return sum;
}

/* ---- after: a workqueue ---- */

struct job {
	struct cmwq_work work;
	uint64_t number, result;
};

static void job_run(struct cmwq_work *work)
{
	struct job *job = CMWQ_CONTAINER_OF(work, struct job, work);

	job->result = digest(job->number);
}

static uint64_t with_cmwq(void)
{
	struct cmwq_workqueue *wq = cmwq_alloc_workqueue("jobs", CMWQ_WQ_UNBOUND, 0);
	struct job *jobs = (struct job *)calloc(JOBS, sizeof(*jobs));
	uint64_t sum = 0;

	if (!wq || !jobs)
		exit(1);
	for (int i = 0; i < JOBS; i++) {
		cmwq_init_work(&jobs[i].work, job_run);
		jobs[i].number = (uint64_t)i;
		cmwq_queue_work(wq, &jobs[i].work);
	}
	cmwq_flush_workqueue(wq);
	for (int i = 0; i < JOBS; i++)
		sum += jobs[i].result;
	cmwq_destroy_workqueue(wq);
	free(jobs);
	return sum;
}

int main(void)
{
	if (with_pthreads() != with_cmwq())
		return 1;
	printf("equal results\n");
	return 0;
}
