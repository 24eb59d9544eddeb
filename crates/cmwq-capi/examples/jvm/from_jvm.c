/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Items that call Java: the workers are attached to the JVM as daemons, so that it can end while they are idle. See docs/adopting.md.
 *
 * Compile with $(pkg-config --cflags --libs cmwq), the include folders of a JDK, and its -ljvm.
 */
#include <cmwq.h>
#include <jni.h>
#include <stdio.h>
#include <stdlib.h>

enum { ITEMS = 1000 };

static JavaVM *vm;

static void must(int condition)
{
	if (!condition)
		abort();
}

/* Called on each worker before its first item. */
static void worker_start(const struct cmwq_worker *worker, void *arg)
{
	JNIEnv *env;

	(void)worker, (void)arg;
	if ((*vm)->AttachCurrentThreadAsDaemon(vm, (void **)&env, NULL) != JNI_OK)
		abort();
}

static void worker_exit(const struct cmwq_worker *worker, void *arg)
{
	(void)worker, (void)arg;
	(*vm)->DetachCurrentThread(vm);
}

static void attach_workers(void)
{
	struct cmwq_thread_attrs attrs = CMWQ_THREAD_ATTRS_INIT;

	attrs.worker_start = worker_start;
	attrs.worker_exit = worker_exit;
	must(cmwq_set_default_threads(cmwq_alloc_threads(&attrs)) == 0); /* before the first workqueue */
}

struct job {
	struct cmwq_work work;
	jlong result;
};

/* Math.abs(-1) */
static void job_run(struct cmwq_work *work)
{
	struct job *job = CMWQ_CONTAINER_OF(work, struct job, work);
	JNIEnv *env;

	must((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_1_8) == JNI_OK);
	/* A worker never returns to Java: what it does not give back itself would stay. */
	must((*env)->PushLocalFrame(env, 4) == 0);
	jclass math = (*env)->FindClass(env, "java/lang/Math");
	jmethodID absolute = (*env)->GetStaticMethodID(env, math, "abs", "(J)J");

	job->result = (*env)->CallStaticLongMethod(env, math, absolute, (jlong)-1);
	(*env)->PopLocalFrame(env, NULL);
}

int main(void)
{
	static struct job jobs[ITEMS];
	JavaVMInitArgs args = {.version = JNI_VERSION_1_8};
	JNIEnv *env;
	jlong sum = 0;

	must(JNI_CreateJavaVM(&vm, (void **)&env, &args) == JNI_OK);
	attach_workers();
	struct cmwq_workqueue *wq = cmwq_alloc_workqueue("java", CMWQ_WQ_UNBOUND, 0);

	must(wq != NULL);
	for (int i = 0; i < ITEMS; i++) {
		cmwq_init_work(&jobs[i].work, job_run);
		cmwq_queue_work(wq, &jobs[i].work);
	}
	cmwq_flush_workqueue(wq);
	for (int i = 0; i < ITEMS; i++)
		sum += jobs[i].result;
	/* It waits for the end of each thread that is attached and not a daemon. The workers are still there, and idle. */
	(*vm)->DestroyJavaVM(vm);
	printf("%ld items called Java\n", (long)sum);
	return 0;
}
