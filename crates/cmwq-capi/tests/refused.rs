//! Wrong code does not compile silently, with any compiler that is here.
//!
//! Each case is a line that is right and the same line with a mistake. The right one compiles with
//! every warning on, so that nothing but the mistake can be what the compiler complains of.
//!
//! Seen to fail: the headers as system headers (gcc and g++ said nothing of a dozen lines), an
//! unchecked cast in `container_of` in C++, `kfree_rcu` with a cast, `rcu_assign_pointer` without
//! an assignment, and functions without CMWQ_MUST_CHECK.

mod common;

use common::{STRICT, cc, crate_dir, has_or_says, includes, said};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

/// What the lines use.
const BEFORE: &str = "\
#include <linux/atomic.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/interrupt.h>
#include <linux/kobject.h>
#include <linux/kstrtox.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/mempool.h>
#include <linux/mutex.h>
#include <linux/percpu_counter.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/rwsem.h>
#include <linux/semaphore.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/sprintf.h>
#include <linux/timer.h>
#include <linux/wait.h>
#include <linux/wait_bit.h>
#include <linux/workqueue.h>
struct other {
	int x;
};
struct item {
	int a;
	char text[8];
	struct cmwq_work own;
	struct work_struct work;
	struct delayed_work dwork;
	struct list_head list;
	struct llist_node ll;
	struct hlist_node h;
	struct timer_list timer;
	struct tasklet_struct tasklet;
	struct rcu_head rcu;
};
extern struct item *item;
extern const struct item *fixed;
extern struct other *other;
extern struct workqueue_struct *wq;
extern struct cmwq_workqueue *queue;
extern struct cmwq_cq *cq;
extern struct cmwq_completion done;
extern struct mutex mutex;
extern struct semaphore semaphore;
extern struct rw_semaphore rwsem;
extern spinlock_t spinlock;
extern struct completion completion;
extern struct percpu_counter counter;
extern wait_queue_head_t waiting;
extern unsigned long word;
extern va_list args;
extern int number;
int thread_fn(void *data);
void work_fn(struct work_struct *work);
void timer_fn(struct timer_list *timer);
void test(void);
void use(const struct item *item);
";

/// A line that is right, and what is to be replaced in it by what to make it wrong.
type Case = (&'static str, &'static str, &'static str);

/// Pointers to something else than the member. Errors, whether our headers are the system's or not.
const MEMBERS: &[Case] = &[
    (
        "use(CMWQ_CONTAINER_OF(&item->own, struct item, own));",
        "&item->own",
        "&item->work",
    ),
    (
        "use(container_of(&item->work, struct item, work));",
        "&item->work",
        "&item->dwork",
    ),
    (
        "use(container_of(&item->a, struct item, a));",
        "&item->a",
        "other",
    ),
    (
        "use(container_of(&item->text, struct item, text));",
        "&item->text",
        "&item->a",
    ),
    (
        "use(container_of_const(&fixed->work, struct item, work));",
        "&fixed->work",
        "&fixed->dwork",
    ),
    (
        "use(from_work(item, &item->work, work));",
        "&item->work",
        "&item->dwork",
    ),
    (
        "use(from_timer(item, &item->timer, timer));",
        "&item->timer",
        "&item->dwork.timer",
    ),
    (
        "use(from_tasklet(item, &item->tasklet, tasklet));",
        "&item->tasklet",
        "&item->work",
    ),
    (
        "use(list_entry(&item->list, struct item, list));",
        "&item->list",
        "&item->h",
    ),
    (
        "use(list_first_entry(&item->list, struct item, list));",
        ", list)",
        ", h)",
    ),
    (
        "list_for_each_entry(item, &item->list, list) use(item);",
        ", list)",
        ", ll)",
    ),
    (
        "use(hlist_entry(&item->h, struct item, h));",
        "&item->h",
        "&item->list",
    ),
    (
        "use(llist_entry(&item->ll, struct item, ll));",
        "&item->ll",
        "&item->list",
    ),
    (
        "llist_for_each_entry(item, &item->ll, ll) use(item);",
        "&item->ll",
        "&item->list",
    ),
];

/// Other values of a wrong type, which macros of our headers could hide. Warnings at least.
const TYPES: &[Case] = &[
    (
        "INIT_WORK(&item->work, work_fn);",
        "&item->work",
        "&item->dwork",
    ),
    ("INIT_WORK(&item->work, work_fn);", "work_fn", "timer_fn"),
    (
        "INIT_DELAYED_WORK(&item->dwork, work_fn);",
        "&item->dwork",
        "&item->work",
    ),
    (
        "DECLARE_WORK(x, work_fn); queue_work(wq, &x);",
        "work_fn",
        "timer_fn",
    ),
    (
        "queue_work(wq, &item->work);",
        "&item->work",
        "&item->dwork",
    ),
    (
        "timer_setup(&item->timer, timer_fn, 0);",
        "timer_fn",
        "work_fn",
    ),
    ("kfree_rcu(item, rcu);", "rcu", "list"),
    ("rcu_assign_pointer(item, item);", ", item", ", other"),
    ("RCU_INIT_POINTER(item, item);", ", item", ", other"),
    (
        "(void)rcu_replace_pointer(item, item, true);",
        ", item",
        ", other",
    ),
    ("smp_store_release(&item, item);", ", item", ", other"),
    ("smp_store_mb(item, item);", ", item", ", other"),
    ("WRITE_ONCE(item, item);", ", item", ", other"),
    ("pr_info(\"%d\\n\", 1);", "1)", "\"x\")"),
    (
        "dev_err((struct device *)NULL, \"%d\\n\", 1);",
        "1)",
        "\"x\")",
    ),
];

/// Answers that a program must look at. In C++, too, a call alone is warned of.
const ANSWERS: &[&str] = &[
    "cmwq_alloc_workqueue(\"x\", 0, 0)",
    "cmwq_alloc_ordered_workqueue(\"x\", 0)",
    "cmwq_alloc_workqueue_with(\"x\", 0, 0, NULL)",
    "cmwq_alloc_threads(NULL)",
    "cmwq_alloc_group(\"x\", 1)",
    "cmwq_alloc_workqueue_attrs()",
    "cmwq_cq_create(0, 0)",
    "cmwq_cq_clone(cq)",
    "cmwq_cq_post(cq, 0, 0)",
    "cmwq_cq_execute(cq, queue, NULL, NULL, 0)",
    "cmwq_cq_arm(cq)",
    "cmwq_cq_drain(cq, NULL, 0)",
    "cmwq_cq_wait(cq, NULL, 0)",
    "cmwq_cq_wait_timeout_ns(cq, NULL, 0, 1)",
    "cmwq_flush_work_timeout_ns(&item->own, 1)",
    "cmwq_flush_delayed_work_timeout_ns(NULL, 1)",
    "cmwq_flush_workqueue_timeout_ns(queue, 1)",
    "cmwq_drain_workqueue_timeout_ns(queue, 1)",
    "cmwq_destroy_workqueue_timeout_ns(queue, 1)",
    "cmwq_try_queue_work(queue, &item->own)",
    "cmwq_queue_work_wait_ns(queue, &item->own, 1)",
    "cmwq_try_queue_delayed_work_ns(queue, NULL, 1)",
    "cmwq_try_mod_delayed_work_ns(queue, NULL, 1)",
    "cmwq_wait_for_completion_timeout_ns(&done, 1)",
    "cmwq_try_wait_for_completion(&done)",
    "cmwq_workqueue_read_attribute(\"x\", \"nice\", NULL, 0)",
    "cmwq_workqueue_write_attribute(\"x\", \"nice\", \"0\")",
    "cmwq_workqueue_set_max_waiting(queue, 1)",
    "cmwq_group_set_max_active(NULL, 1)",
    "cmwq_apply_workqueue_attrs(queue, NULL)",
    "cmwq_set_unbound_cpumask(NULL)",
    "cmwq_set_run_hooks(NULL, NULL)",
    "cmwq_cq_fd(cq)",
    "cmwq_get_workqueue_attrs(queue, NULL)",
    "cmwq_set_default_threads(NULL)",
    "cmwq_schedule_on_each_cpu(NULL)",
    "cmwq_possible_cpus(NULL)",
    "cmwq_online_cpus(NULL)",
    "alloc_workqueue(\"x\", 0, 0)",
    "alloc_ordered_workqueue(\"x\", 0)",
    "alloc_workqueue_attrs()",
    "apply_workqueue_attrs((struct workqueue_struct *)queue, NULL)",
    "schedule_on_each_cpu(NULL)",
    "cpumask_parse(\"1\", NULL)",
    "cpulist_parse(\"1\", NULL)",
    "kobject_init_and_add((struct kobject *)NULL, NULL, NULL, \"x\")",
    "kmalloc(1, GFP_KERNEL)",
    "kzalloc(1, GFP_KERNEL)",
    "krealloc(item, 1, GFP_KERNEL)",
    "mutex_trylock(&mutex)",
    "mutex_lock_interruptible(&mutex)",
    "spin_trylock(&spinlock)",
    "down_trylock(&semaphore)",
    "down_timeout(&semaphore, 1)",
    "down_read_trylock(&rwsem)",
    "kstrtoint(\"1\", 10, &number)",
    "kasprintf(GFP_KERNEL, \"x\")",
    "kvasprintf(GFP_KERNEL, \"x\", args)",
    "kobject_get_path((struct kobject *)NULL, GFP_KERNEL)",
    "filp_open(\"x\", 0, 0)",
    "percpu_counter_init(&counter, 0, GFP_KERNEL)",
    "mempool_create_kmalloc_pool(1, 1)",
    "kthread_create(thread_fn, NULL, \"x\")",
    "kthread_create_on_node(thread_fn, NULL, 0, \"x\")",
    "kthread_create_on_cpu(thread_fn, NULL, 0, \"x/%u\")",
    "kthread_run(thread_fn, NULL, \"x\")",
    "kthread_run_on_cpu(thread_fn, NULL, 0, \"x/%u\")",
    "kthread_create_worker(0, \"x\")",
    "kthread_create_worker_on_node(0, 0, \"x\")",
    "kthread_create_worker_on_cpu(0, 0, \"x/%u\")",
    "kthread_run_worker(0, \"x\")",
    "kthread_run_worker_on_cpu(0, 0, \"x/%u\")",
    "wait_for_completion_timeout(&completion, 1)",
    "wait_for_completion_io_timeout(&completion, 1)",
    "wait_for_completion_interruptible_timeout(&completion, 1)",
    "wait_for_completion_killable_timeout(&completion, 1)",
    "wait_event_timeout(waiting, number, 1)",
    "wait_event_interruptible_timeout(waiting, number, 1)",
    "wait_event_killable_timeout(waiting, number, 1)",
    "wait_event_idle_timeout(waiting, number, 1)",
    "wait_event_freezable_timeout(waiting, number, 1)",
    "wait_event_lock_irq_timeout(waiting, number, spinlock, 1)",
    "wait_event_interruptible_lock_irq_timeout(waiting, number, spinlock, 1)",
    "wait_on_bit_timeout(&word, 0, TASK_UNINTERRUPTIBLE, 1)",
    "wait_var_event_timeout(&number, number, 1)",
];

/// What a function that allocates, makes something or waits with a deadline has in its name.
const FAILING: [&str; 6] = [
    "alloc", "create", "memdup", "strdup", "asprintf", "_timeout",
];

/// Functions with such names whose answer a program may ignore, and why.
const IGNORED: &[(&str, &str)] = &[
    (
        "schedule_timeout",
        "a sleep, after which a program looks at its own condition",
    ),
    ("schedule_timeout_uninterruptible", "the same"),
    ("schedule_timeout_interruptible", "the same"),
    ("debugfs_create_dir", "programs are told to ignore it"),
    ("debugfs_create_file", "the same"),
    ("device_create_file", "without the file the device works"),
    ("cmwq_sysfs_create", "within the headers"),
    ("cmwq_valloc_workqueue", "the same"),
];

/// A compiler, the language, the standard.
fn compilers() -> Vec<(String, &'static str, &'static str)> {
    let mut all = vec![
        (cc(), "c", "-std=gnu11"),
        ("clang".into(), "c", "-std=gnu11"),
        ("c++".into(), "c++", "-std=gnu++17"),
        ("clang++".into(), "c++", "-std=gnu++17"),
    ];
    all.retain(|(compiler, ..)| has_or_says(compiler));
    all
}

/// Compiles functions with these bodies, to the end, since gcc finds some mistakes only there.
fn compiled(compiler: &(String, &str, &str), args: &[String], bodies: &[String]) -> Output {
    let (compiler, language, standard) = compiler;
    let mut source = BEFORE.to_owned();
    for (i, body) in bodies.iter().enumerate() {
        writeln!(
            source,
            "void test{i}(void);\nvoid test{i}(void)\n{{\n\t{body}\n}}"
        )
        .unwrap();
    }
    let mut command = Command::new(compiler);
    command.args([standard, "-x", language, "-S", "-o", "/dev/null"]);
    command.args(args).arg("-");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(source.as_bytes()).unwrap();
    drop(input);
    child.wait_with_output().unwrap()
}

fn strict() -> Vec<String> {
    let strict = STRICT.map(str::to_owned);
    strict.into_iter().chain(includes()).collect()
}

/// Our headers as a system's, or as CMake's imported targets have them: without any warning.
fn as_system_headers() -> Vec<String> {
    let folder = crate_dir().join("include");
    [
        "-w".to_owned(),
        "-isystem".to_owned(),
        folder.display().to_string(),
    ]
    .into()
}

fn is_refused(compiler: &(String, &str, &str), args: &[String], wrong: String) {
    let name = &compiler.0;
    let output = compiled(compiler, args, std::slice::from_ref(&wrong));
    assert!(!output.status.success(), "{name} {args:?} accepts: {wrong}");
}

fn all_compile(compiler: &(String, &str, &str), args: &[String], bodies: &[String]) {
    let output = compiled(compiler, args, bodies);
    assert!(output.status.success(), "{}: {}", compiler.0, said(&output));
}

/// The right lines compile, each of the wrong ones does not.
fn judge(compiler: &(String, &str, &str), args: &[String], cases: &[Case]) {
    let right: Vec<String> = cases
        .iter()
        .map(|(right, ..)| (*right).to_owned())
        .collect();
    all_compile(compiler, args, &right);
    for (right, from, to) in cases {
        assert!(right.contains(from), "{right} has no {from}");
        is_refused(compiler, args, right.replacen(from, to, 1));
    }
}

#[test]
fn a_pointer_to_another_member_is_an_error() {
    for compiler in compilers() {
        judge(&compiler, &strict(), MEMBERS);
        judge(&compiler, &as_system_headers(), MEMBERS);
    }
}

#[test]
fn macros_hide_no_wrong_type() {
    for compiler in compilers() {
        judge(&compiler, &strict(), TYPES);
    }
}

#[test]
fn answers_are_not_ignored() {
    for compiler in compilers() {
        let looked_at = ANSWERS.iter().map(|call| format!("if ({call}) number++;"));
        all_compile(&compiler, &strict(), &looked_at.collect::<Vec<_>>());
        for call in ANSWERS {
            is_refused(&compiler, &strict(), format!("{call};"));
        }
    }
}

/// A developer who adds such a function to the headers also decides whether its answer may be ignored.
#[test]
fn each_function_that_may_fail_so_is_marked() {
    let linux = crate_dir().join("include/linux");
    let names = std::fs::read_dir(linux).unwrap();
    let mut unmarked = BTreeSet::new();
    for path in names.map(|entry| entry.unwrap().path()) {
        if path.extension().is_none_or(|extension| extension != "h") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for line in text.lines().filter(|line| line.starts_with("static ")) {
            let before = line.split('(').next().unwrap();
            let name = before.rsplit([' ', '*']).next().unwrap();
            let fails = FAILING.iter().any(|part| name.contains(part));
            if fails && !before.contains("CMWQ_MUST_CHECK") && !before.contains(" void ") {
                unmarked.insert(name.to_owned());
            }
        }
    }
    let ignored = IGNORED.iter().map(|(name, _)| (*name).to_owned());
    assert_eq!(unmarked, ignored.collect());
}

/// The functions that `text` marks.
fn marked_in(text: &str) -> BTreeSet<&str> {
    let after = text.split("CMWQ_MUST_CHECK").skip(1);
    let before = after.filter_map(|rest| rest.split_once('('));
    before
        .filter_map(|(before, _)| before.rsplit([' ', '*', '\n', '\t']).next())
        .collect()
}

/// What a kernel-shaped function returns is marked if the function of `cmwq.h` is whose answer it returns.
#[test]
fn an_answer_that_is_passed_on_is_marked_as_well() {
    let include = crate_dir().join("include");
    let ours = ["cmwq.h", "cmwq_cq.h", "cmwq_task.h"];
    let ours = ours.map(|name| std::fs::read_to_string(include.join(name)).unwrap());
    let marked: BTreeSet<&str> = ours.iter().flat_map(|text| marked_in(text)).collect();
    let mut passed_on = 0;
    for path in std::fs::read_dir(include.join("linux")).unwrap() {
        let path = path.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "h") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        // A function begins at the start of a line and ends with a brace there.
        for function in text.split("\nstatic ").skip(1) {
            let (head, rest) = function.split_once("\n{\n").unwrap_or((function, ""));
            let body = rest.split("\n}").next().unwrap();
            let mut returned = body.split("return ").skip(1);
            if !returned.any(|call| marked.contains(call.split('(').next().unwrap())) {
                continue;
            }
            passed_on += 1;
            let is_void = head.starts_with("inline void ");
            assert!(
                is_void || head.contains("CMWQ_MUST_CHECK"),
                "{}: {head} is not marked",
                path.display()
            );
        }
    }
    assert!(passed_on >= 3, "{passed_on}");
}

/// In C++ the result is as const as the pointer, as in C.
#[test]
fn const_is_kept_where_it_is_promised() {
    let line = "struct item *to = container_of_const(&item->work, struct item, work); use(to);";
    for compiler in compilers() {
        judge(
            &compiler,
            &strict(),
            &[(line, "&item->work", "&fixed->work")],
        );
    }
}
